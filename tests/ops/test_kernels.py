"""Kernel equals reference, forward and gradient: on a GPU where there is one, else in Triton's interpreter."""

import pytest
import torch
from torch.nn import functional as F

from afgrl.errors import AfgrlError, UserError
from afgrl.ops import dispatch, knn, pair_matrix
from afgrl.ops.frozen_prelu import Norm, frozen_prelu_reference
from afgrl.ops.kmeans import lloyd_reference
from afgrl.ops.knn import knn_reference
from afgrl.ops.pairloss import pair_loss_reference
from afgrl.ops.reasons import reasons_reference

pytest.importorskip("triton", reason="Triton is made for Linux alone")

from afgrl.ops.frozen_prelu_triton import backward_kernel, forward_kernel
from afgrl.ops.kmeans_triton import lloyd_kernel
from afgrl.ops.knn_triton import knn_kernel
from afgrl.ops.pairloss_triton import attract_kernel
from afgrl.ops.reasons_triton import reasons_kernel
from afgrl.ops.rows_triton import padded_rows

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
PRECISIONS = ("float32", "tf32", "bf16")
# How far the k-th similarity may be from the true one: what rounding the operands can hide, for unit rows.
MISSED = {"float32": 5e-5, "tf32": 1e-3, "bf16": 5e-3}
SIZES = [
    (n, d, k, diagonal)
    for n, d, k in [(1, 3, 1), (63, 40, 4), (65, 1, 2), (130, 70, 64), (12, 5, 11)]
    for diagonal in ("keep", "first", "drop")
    if k < n or diagonal != "drop"  # there are not so many others
]


def blobs(n, d, rng, spread=1.0):
    means = torch.randn(7, d, generator=rng)
    return (means[torch.arange(n) % 7] + spread * torch.randn(n, d, generator=rng)).to(DEVICE)


@pytest.mark.parametrize("diagonal", ["keep", "first", "drop"])
def test_neighbors_of_a_training_that_diverged_exist(diagonal, rng):
    """Their pairs are read before anyone looks at the loss."""
    query = blobs(70, 12, rng)
    query[::2] = torch.nan
    for key in (query, torch.full_like(query, torch.nan)):
        index, _ = knn_kernel(query, key, 5, diagonal, "bf16")
        assert index.min() >= 0
        assert index.max() < 70


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("n", "d", "k", "diagonal"), SIZES)
def test_neighbors_are_those_of_float64(n, d, k, diagonal, precision, rng):
    query = blobs(n, d, rng)
    key = query + 0.3 * torch.randn(n, d, generator=rng).to(DEVICE)
    index, similarity = knn_kernel(query, key, k, diagonal, precision)
    exact = knn_reference(F.normalize(query.double()), F.normalize(key.double()), k, diagonal)
    assert torch.allclose(similarity.double(), exact.similarity, atol=MISSED[precision])
    # What is returned is the float32 similarity of what is returned, nearest first, each once.
    cosine = F.cosine_similarity(query.double().unsqueeze(1), key.double()[index], dim=-1)
    assert torch.allclose(similarity.double(), cosine, atol=1e-6)
    ranked = similarity[:, 1:] if diagonal == "first" else similarity
    assert torch.equal(ranked, ranked.sort(dim=1, descending=True).values)
    assert all(len(row.unique()) == k for row in index)
    own = torch.arange(n, device=DEVICE).unsqueeze(1)
    if diagonal == "first":
        assert torch.equal(index[:, :1], own)
    if diagonal == "drop":
        assert not (index == own).any()


def test_equal_rows_are_all_found(rng):
    x = blobs(9, 20, rng).repeat_interleave(7, dim=0)  # every row seven times
    index, similarity = knn_kernel(x, x, 7, "keep", "bf16")
    assert torch.equal(index.sort(dim=1).values // 7, torch.arange(63, device=DEVICE).unsqueeze(1).expand(63, 7) // 7)
    assert torch.allclose(similarity, torch.ones_like(similarity), atol=1e-6)


def test_columns_in_another_order_in_memory(rng):
    x = blobs(20, 30, rng)
    turned = x.T.contiguous().T
    assert not turned.is_contiguous()
    for plain, other in zip(
        knn_kernel(x, x, 3, "drop", "tf32"), knn_kernel(turned, turned, 3, "drop", "tf32"), strict=True
    ):
        assert torch.equal(plain, other)
    clusters = [lloyd_kernel(part, x[:4][None], 3, unit=True, precision="tf32") for part in (x, turned)]
    assert torch.equal(clusters[0].centers, clusters[1].centers)


def test_rows_of_zeros_have_neighbors_too():
    index, similarity = knn_kernel(torch.zeros(5, 3, device=DEVICE), torch.ones(5, 3, device=DEVICE), 2, "drop", "tf32")
    assert torch.equal(similarity, torch.zeros(5, 2, device=DEVICE))
    assert (index >= 0).all()


def test_more_neighbors_than_registers_hold():
    x = torch.eye(70, device=DEVICE)
    with pytest.raises(AfgrlError, match="holds up to 64 neighbors, not 65"):
        knn_kernel(x, x, 65, "keep", "tf32")
    assert knn(x, x, 65).index.shape == (70, 65)  # the public function has another way


@pytest.mark.skipif(not GPU, reason="needs a GPU")
@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_many_keys_on_a_gpu(precision, rng):
    x = blobs(100_003, 64, rng)
    index, similarity = knn_kernel(x, x, 8, "drop", precision)
    some = torch.randint(len(x), (300,), generator=rng).to(DEVICE)
    cosine = F.normalize(x[some].double()) @ F.normalize(x.double()).T
    cosine[torch.arange(300, device=DEVICE), some] = -2
    exact = cosine.topk(8)
    recall = (index[some].unsqueeze(2) == exact.indices.unsqueeze(1)).any(2).double().mean().item()
    assert recall > {"tf32": 0.999, "bf16": 0.99}[precision]
    assert torch.allclose(similarity[some].double(), exact.values, atol=MISSED[precision])


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize(("n", "d", "k", "m"), [(1, 3, 1, 1), (63, 40, 5, 2), (65, 65, 65, 1), (90, 20, 30, 6)])
def test_clusters_are_those_of_the_reference(n, d, k, m, unit, precision, rng):
    x = blobs(n, d, rng, spread=0.3)
    rows = torch.rand(m, n, generator=rng).topk(k, dim=1).indices.to(DEVICE)
    points = F.normalize(x) if unit else x
    found = lloyd_kernel(x, points[rows], 4, unit=unit, precision=precision)
    plain = lloyd_reference(points, points[rows], 4)
    # A row between two centers may go to either, and takes them along: few do.
    assert (found.labels == plain.labels).double().mean() >= {"float32": 0.98, "tf32": 0.97, "bf16": 0.9}[precision]
    scale = points.square().sum()
    assert torch.allclose(
        found.inertia, plain.inertia, rtol=0.02, atol=float(scale) * {"bf16": 1e-2}.get(precision, 2e-3)
    )
    again = lloyd_kernel(x, points[rows], 4, unit=unit, precision=precision)
    assert torch.equal(again.labels, found.labels)
    assert torch.equal(again.centers, found.centers)


def test_an_empty_cluster_keeps_its_center(rng):
    x = blobs(30, 4, rng)
    far = torch.full((1, 1, 4), 100.0, device=DEVICE)
    start = torch.cat([x[:2].unsqueeze(0), far], dim=1)
    found = lloyd_kernel(x, start, 3, unit=False, precision="float32")
    assert not (found.labels == 2).any()
    assert torch.equal(found.centers[0, 2], far[0, 0])


@pytest.mark.parametrize("over", ["pairs", "nodes"])
@pytest.mark.parametrize(("n", "d", "p"), [(1, 3, 1), (63, 40, 200), (20, 130, 0), (9, 5, 300)])
def test_the_loss_and_its_gradient(n, d, p, over, rng):
    src = torch.randint(n, (p,), generator=rng).sort().values.to(DEVICE)
    dst = torch.randint(n, (p,), generator=rng).to(DEVICE)
    weight = (torch.rand(p, generator=rng) > 0.3).to(DEVICE)
    matrix = pair_matrix(src, dst, n, weight)
    z, t = torch.randn(2, n, d, generator=rng).to(DEVICE)
    leaf = z.clone().requires_grad_()
    loss = pair_loss_reference(leaf, t, matrix, over=over)
    (gradient,) = torch.autograd.grad(loss, leaf)
    count = matrix.weight.sum()
    divisor = count.clamp(min=1) if over == "pairs" else torch.full_like(count, n)
    agreement, ours = attract_kernel(z, t, matrix, divisor)
    assert ((4 * count - 2 * agreement) / divisor).item() == pytest.approx(loss.item(), abs=1e-5)
    assert torch.allclose(ours, gradient, atol=1e-6)


@pytest.mark.parametrize(("n", "d"), [(1, 3), (63, 40), (100, 130)])
def test_the_activation_and_its_gradients(n, d, rng):
    x, up = torch.randn(2, n, d, generator=rng).to(DEVICE)
    bias, mean, gain, shift = torch.randn(4, d, generator=rng).to(DEVICE)
    norm = Norm(mean, torch.rand(d, generator=rng).to(DEVICE) + 0.1, gain, shift, 1e-5)
    slope = torch.tensor([0.25], device=DEVICE)
    leaves = [part.clone().requires_grad_() for part in (x, bias, gain, shift, slope)]
    y = frozen_prelu_reference(leaves[0], leaves[1], norm._replace(gain=leaves[2], shift=leaves[3]), leaves[4])
    assert torch.allclose(forward_kernel(x, bias, norm, slope), y, atol=1e-5)
    expected = torch.autograd.grad(y, leaves, up)
    for name, ours, theirs in zip(
        ("x", "bias", "gain", "shift", "slope"), backward_kernel(up, x, bias, norm, slope), expected, strict=True
    ):
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-4), name  # sums over n·d terms in another order


@pytest.mark.parametrize(("n", "e"), [(1, 0), (50, 0), (50, 200), (77, 1000)])
def test_the_reasons(n, e, rng):
    src = torch.arange(n).repeat_interleave(5).to(DEVICE)
    dst = torch.randint(n, (5 * n,), generator=rng).to(DEVICE)
    edges = torch.randint(n * n, (e,), generator=rng).unique().to(DEVICE)
    for clusters in (torch.randint(6, (3, n), generator=rng).to(torch.int32).to(DEVICE), None):
        assert torch.equal(
            reasons_kernel(src, dst, edges, clusters, n), reasons_reference(src, dst, edges, clusters, n)
        )


def test_padding_adds_zeros_and_nothing_else(rng):
    x = torch.randn(5, 70, generator=rng).to(DEVICE)
    x[3] = 0
    rows, inverse = padded_rows(x, "float32", multiple=16, unit=True)
    assert rows.shape == (16, 128)
    assert torch.allclose(rows[:5, :70], F.normalize(x), atol=1e-6)
    assert rows[5:].abs().sum() == rows[:, 70:].abs().sum() == 0
    assert torch.allclose(1 / inverse[:3], x[:3].norm(dim=1))


def test_afgrl_ops_is_checked(monkeypatch):
    monkeypatch.setenv("AFGRL_OPS", "fastest")
    with pytest.raises(UserError, match="AFGRL_OPS can be auto or reference, not 'fastest'"):
        dispatch.is_fast()


class OnGpu:
    """All that the dispatch asks a tensor."""

    is_cuda, device = True, torch.device("cuda")


def test_a_kernel_that_cannot_run_says_why(monkeypatch):
    monkeypatch.delenv("AFGRL_OPS", raising=False)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    with pytest.raises(AfgrlError, match=r"Tesla T4 has compute capability 7\.5, and they need 8\.0; AFGRL_OPS="):
        dispatch.takes_kernels(OnGpu)
    monkeypatch.setitem(__import__("sys").modules, "triton", None)
    with pytest.raises(AfgrlError, match="Triton cannot be imported"):
        dispatch.takes_kernels(OnGpu)
    monkeypatch.setenv("AFGRL_OPS", "reference")
    assert not dispatch.takes_kernels(OnGpu)
