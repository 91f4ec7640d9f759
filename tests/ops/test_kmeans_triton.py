"""The Triton kernels of k-means on a GPU or in Triton's interpreter, against the reference."""

import pytest
import torch
from torch.nn import functional as F

from afgrl.ops.kmeans.reference import lloyd_reference

pytest.importorskip("triton", reason="Triton supports Linux only")

from afgrl.ops.kmeans.triton import lloyd_triton

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
PRECISIONS = ("float32", "tf32", "bf16")


def blobs(n, d, rng, spread=1.0):
    means = torch.randn(7, d, generator=rng)
    return (means[torch.arange(n) % 7] + spread * torch.randn(n, d, generator=rng)).to(DEVICE)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize(("n", "d", "k", "m"), [(1, 3, 1, 1), (63, 40, 5, 2), (65, 65, 65, 1), (70, 20, 20, 2)])
def test_equals_the_reference(n, d, k, m, unit, precision, rng):
    x = blobs(n, d, rng, spread=0.3)
    rows = torch.rand(m, n, generator=rng).topk(k, dim=1).indices.to(DEVICE)
    points = F.normalize(x) if unit else x
    found = lloyd_triton(x, points[rows], 4, unit=unit, precision=precision)
    plain = lloyd_reference(x, points[rows], 4, unit=unit)
    # A row between two centers may go to either, which moves them; there are few such rows.
    assert (found.labels == plain.labels).double().mean() >= {"float32": 0.98, "tf32": 0.97, "bf16": 0.9}[precision]
    scale = points.square().sum()
    assert torch.allclose(
        found.inertia, plain.inertia, rtol=0.02, atol=float(scale) * {"bf16": 1e-2}.get(precision, 2e-3)
    )
    again = lloyd_triton(x, points[rows], 4, unit=unit, precision=precision)
    assert torch.equal(again.labels, found.labels)
    assert torch.equal(again.centers, found.centers)


def test_memory_order_does_not_matter(rng):
    x = blobs(20, 30, rng)
    column_major = x.T.contiguous().T
    assert not column_major.is_contiguous()
    plain, other = (lloyd_triton(rows, x[:4][None], 3, unit=True, precision="tf32") for rows in (x, column_major))
    assert torch.equal(plain.centers, other.centers)


def test_an_empty_cluster_keeps_its_center(rng):
    x = blobs(30, 4, rng)
    far = torch.full((1, 1, 4), 100.0, device=DEVICE)
    start = torch.cat([x[:2].unsqueeze(0), far], dim=1)
    found = lloyd_triton(x, start, 3, unit=False, precision="float32")
    assert not (found.labels == 2).any()
    assert torch.equal(found.centers[0, 2], far[0, 0])
