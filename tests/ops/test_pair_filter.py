"""Local and global pairs: by hand, and the Triton kernel against the reference."""

import pytest
import torch

from afgrl.ops.pair_filter import GLOBAL, LOCAL, pair_kinds
from afgrl.ops.pair_filter.reference import pair_kinds_reference

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def test_kinds_by_hand():
    src, dst = torch.tensor([0, 0, 0, 1, 2, 3]), torch.tensor([0, 1, 2, 0, 3, 1])
    edges = torch.tensor([0 * 4 + 1, 1 * 4 + 0, 2 * 4 + 3])  # 3 – 2 is not an edge
    clusters = torch.tensor([[0, 1, 0, 2], [0, 1, 2, 1]])
    expected = [LOCAL | GLOBAL, LOCAL, GLOBAL, LOCAL, LOCAL, GLOBAL]
    assert pair_kinds(src, dst, edges, clusters, 4).tolist() == expected
    without = [kind & LOCAL for kind in expected]
    assert pair_kinds(src, dst, edges, None, 4).tolist() == without


@pytest.mark.parametrize(("n", "e"), [(1, 0), (50, 0), (50, 200), (77, 1000)])
def test_the_kernel_equals_the_reference(n, e, rng):
    pytest.importorskip("triton", reason="Triton supports Linux only")
    from afgrl.ops.pair_filter.triton import pair_kinds_triton

    src = torch.arange(n).repeat_interleave(5).to(DEVICE)
    dst = torch.randint(n, (5 * n,), generator=rng).to(DEVICE)
    edges = torch.randint(n * n, (e,), generator=rng).unique().to(DEVICE)
    for clusters in (torch.randint(6, (3, n), generator=rng).to(torch.int32).to(DEVICE), None):
        assert torch.equal(
            pair_kinds_triton(src, dst, edges, clusters, n), pair_kinds_reference(src, dst, edges, clusters, n)
        )
