"""What constant targets and pairs contribute to the loss, with rows on several processes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.ops.collectives import Shards
from afgrl.ops.pair_loss.reference import Over, Pull, divisor
from afgrl.ops.propagation.sharded import ShardedMatrix


def pull_sharded(t: Tensor, src: Tensor, dst: Tensor, shards: Shards, *, over: Over) -> Pull:
    """The rows of ``pull_of`` that this process has, from its rows ``t`` of the targets and the positive pairs of its
    nodes: ``src`` ascending."""
    receiver, sender = _with_reverse(src, dst, shards)
    order = torch.argsort(receiver, stable=True)
    rows = torch.arange(shards.begin, shards.end + 1, device=t.device)
    crow = torch.searchsorted(receiver[order], rows)
    ones = torch.ones(len(sender), device=t.device)
    sums = ShardedMatrix.of(crow, sender[order], ones, shards) @ F.normalize(t)
    count = shards.sum(torch.tensor([len(src)], device=t.device))[0].to(t.dtype)
    divided_by = divisor(count, shards.n, over)
    return Pull(sums.mul_(shards.n / divided_by), 4 * count / divided_by)


def _with_reverse(src: Tensor, dst: Tensor, shards: Shards) -> tuple[Tensor, Tensor]:
    """Entries of M + Mᵀ in the rows of this process: those of its own pairs, and those of pairs that other processes
    found, which end here."""
    target, order = dst.sort(stable=True)
    owner = target.div(shards.rows_each, rounding_mode="floor")
    pairs = torch.stack([target, src[order]], dim=1)
    counts = torch.bincount(owner, minlength=shards.size).tolist()
    reverse = torch.cat(shards.swap(pairs.split(counts)))
    return torch.cat([src, reverse[:, 0]]), torch.cat([dst, reverse[:, 1]])
