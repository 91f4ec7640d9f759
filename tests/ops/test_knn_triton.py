"""The Triton kernel of nearest neighbors on a GPU or in Triton's interpreter, against float64."""

import pytest
import torch
from torch.nn import functional as F

from afgrl.errors import AfgrlError
from afgrl.ops.knn import nearest_neighbors
from afgrl.ops.knn.reference import nearest_neighbors_reference

pytest.importorskip("triton", reason="Triton supports Linux only")

from afgrl.ops.knn.triton import nearest_neighbors_triton

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
PRECISIONS = ("float32", "tf32", "bf16")
# How far the k-th similarity may be from the true one: the rounding error of the operands, for unit rows.
ROUNDING = {"float32": 5e-5, "tf32": 1e-3, "bf16": 5e-3}
SIZES = [
    (n, d, k, diagonal)
    for n, d, k in [(1, 3, 1), (63, 40, 4), (65, 1, 2), (130, 70, 64), (12, 5, 11)]
    for diagonal in ("keep", "first", "drop")
    if k < n or diagonal != "drop"  # with drop there are only n - 1
]


def blobs(n, d, rng, spread=1.0):
    means = torch.randn(7, d, generator=rng)
    return (means[torch.arange(n) % 7] + spread * torch.randn(n, d, generator=rng)).to(DEVICE)


@pytest.mark.parametrize("diagonal", ["keep", "first", "drop"])
def test_neighbors_exist_even_if_training_diverged(diagonal, rng):
    """Their pairs are read before the loss is checked."""
    query = blobs(70, 12, rng)
    query[::2] = torch.nan
    for key in (query, torch.full_like(query, torch.nan)):
        index = nearest_neighbors_triton(query, key, 5, diagonal, "bf16").index
        assert index.min() >= 0
        assert index.max() < 70


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("n", "d", "k", "diagonal"), SIZES)
def test_equals_float64(n, d, k, diagonal, precision, rng):
    query = blobs(n, d, rng)
    key = query + 0.3 * torch.randn(n, d, generator=rng).to(DEVICE)
    found = nearest_neighbors_triton(query, key, k, diagonal, precision)
    index, similarity = found.index, found.similarity
    exact = nearest_neighbors_reference(query.double(), key.double(), k, diagonal)
    assert torch.allclose(similarity.double(), exact.similarity, atol=ROUNDING[precision])
    # The returned similarities are the float32 similarities of the returned keys, nearest first, each key once.
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
    found = nearest_neighbors_triton(x, x, 7, "keep", "bf16")
    assert torch.equal(
        found.index.sort(dim=1).values // 7, torch.arange(63, device=DEVICE).unsqueeze(1).expand(63, 7) // 7
    )
    assert torch.allclose(found.similarity, torch.ones_like(found.similarity), atol=1e-6)


def test_memory_order_does_not_matter(rng):
    x = blobs(20, 30, rng)
    column_major = x.T.contiguous().T
    assert not column_major.is_contiguous()
    plain, other = (nearest_neighbors_triton(table, table, 3, "drop", "tf32") for table in (x, column_major))
    assert torch.equal(plain.index, other.index)
    assert torch.equal(plain.similarity, other.similarity)


def test_zero_rows_have_neighbors():
    zeros, ones = torch.zeros(5, 3, device=DEVICE), torch.ones(5, 3, device=DEVICE)
    found = nearest_neighbors_triton(zeros, ones, 2, "drop", "tf32")
    assert torch.equal(found.similarity, torch.zeros(5, 2, device=DEVICE))
    assert (found.index >= 0).all()


def test_more_neighbors_than_registers_hold():
    x = torch.eye(70, device=DEVICE)
    with pytest.raises(AfgrlError, match="holds up to 64 neighbors, not 65"):
        nearest_neighbors_triton(x, x, 65, "keep", "tf32")
    assert nearest_neighbors(x, x, 65).index.shape == (70, 65)  # the public function uses the reference


@pytest.mark.skipif(not GPU, reason="needs a GPU")
@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_many_keys_on_a_gpu(precision, rng):
    x = blobs(100_003, 64, rng)
    found = nearest_neighbors_triton(x, x, 8, "drop", precision)
    index, similarity = found.index, found.similarity
    some = torch.randint(len(x), (300,), generator=rng).to(DEVICE)
    cosine = F.normalize(x[some].double()) @ F.normalize(x.double()).T
    cosine[torch.arange(300, device=DEVICE), some] = -2
    exact = cosine.topk(8)
    recall = (index[some].unsqueeze(2) == exact.indices.unsqueeze(1)).any(2).double().mean().item()
    assert recall > {"tf32": 0.999, "bf16": 0.99}[precision]
    assert torch.allclose(similarity[some].double(), exact.values, atol=ROUNDING[precision])
