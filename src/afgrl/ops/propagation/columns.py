"""Repeated products of the normalized adjacency S with dense columns, without gradients.

On a CPU, 64 columns at a time pass through all products, each as ``embedding_bag`` (see ops/sparse/cpu.py): the rows
that a product reads then come from the cache. Ten products with 1,024 columns of Debian take 1.8 instead of 9.2 s, one
after the other with PyTorch's CSR product. Tables in files are computed by rows instead: each page of a row-major file
has values of all columns, so that every block of columns would read and write the whole file again. The bits are equal.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
from torch import Tensor

from afgrl.ops.dispatch import is_fast
from afgrl.ops.propagation.adjacency import Adjacency
from afgrl.ops.sparse import csr_multiplier
from afgrl.ops.sparse.cpu import COLUMNS, product_rows
from afgrl.ops.storage import empty_rows, goes_to_file, row_blocks

TELEPORT, PPR_STEPS = 0.15, 10


def hops(x: Tensor, adjacency: Adjacency, n_hops: int) -> list[Tensor]:
    """``Sx, S²x, …`` of ``x`` [n, d], for ``n_hops`` hops: [n, d] each."""
    results = [empty_rows(x.shape[0], x.shape[1], x.device, x.dtype) for _ in range(n_hops)]
    if _by_rows(x, adjacency):
        parts = adjacency.crow_indices(), adjacency.col_indices(), adjacency.values()
        for before, result in itertools.pairwise([x.contiguous(), *results]):
            for rows in row_blocks(len(x), x.device):
                result[rows] = product_rows(*parts, before, rows)
        return results
    for columns, multiply in _column_blocks(x, adjacency):
        h = x[:, columns]
        for result in results:
            h = multiply(h)
            result[:, columns] = h
    return results


def pagerank_average(v: Tensor, adjacency: Adjacency, teleport: float = TELEPORT, n_steps: int = PPR_STEPS) -> Tensor:
    """Ten steps of ``h ← .85 S h + .15 v`` from ``h = v``, by default: [n, d]."""
    blocks = _column_blocks(v, adjacency)
    average = empty_rows(v.shape[0], v.shape[1], v.device, v.dtype) if len(blocks) > 1 else v
    for columns, multiply in blocks:
        h = start = v[:, columns].contiguous()
        for _ in range(n_steps):
            h = multiply(h).lerp_(start, teleport)
        if len(blocks) == 1:
            return h
        average[:, columns] = h
    return average


def _column_blocks(x: Tensor, adjacency: Adjacency) -> list[tuple[slice, Callable[[Tensor], Tensor]]]:
    """Slices of the columns of ``x``, and the product with S for each: all columns at once except on a CPU.

    ``adjacency`` is a CSR tensor, or anything else that supports ``adjacency @ x``.
    """
    if not _is_csr(adjacency) or x.dtype != torch.float32:
        return [(slice(None), lambda h: adjacency @ h)]
    multiply = csr_multiplier(adjacency)
    if adjacency.is_cuda or not is_fast():
        return [(slice(None), multiply)]
    return [(slice(start, start + COLUMNS), multiply) for start in range(0, x.shape[1], COLUMNS)]


def _by_rows(x: Tensor, adjacency: Adjacency) -> bool:
    in_file = goes_to_file(x.shape[0], x.shape[1], x.device, x.dtype)
    return in_file and _is_csr(adjacency) and x.dtype == torch.float32 and is_fast()


def _is_csr(adjacency: Adjacency) -> bool:
    return isinstance(adjacency, Tensor) and adjacency.layout == torch.sparse_csr
