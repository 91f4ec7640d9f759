"""Sparse products whose rows are spread over several processes.

A process has some rows of the matrix and of the table it is multiplied with. It fetches the rows of the table that its
rows of the matrix refer to, 64 columns at a time, so that memory is bounded by 64 numbers per row that it needs. Sums
have the order of the columns, whatever the number of processes, so the result has the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import scipy.sparse as sp
import torch
from torch import Tensor

from afgrl.csr import csr_from_scipy, csr_tensor, csr_to_scipy
from afgrl.ops.collectives import Shards
from afgrl.ops.collectives.exchange import Exchange
from afgrl.ops.propagation import HOP_LENGTH
from afgrl.ops.sparse import csr_multiplier
from afgrl.ops.sparse.batches import RowTable
from afgrl.ops.sparse.cpu import COLUMNS
from afgrl.ops.sparse.layout import factored_product_is_faster, fastest_layout
from afgrl.ops.sparse.rows import unit_rows


@dataclass(frozen=True, eq=False)
class ShardedMatrix:
    """The rows of an [n, n] matrix that this process has. It supports products with tables of its own rows only."""

    local: Tensor  # [n_own, r] CSR, its columns are those of ``exchange.needed``
    exchange: Exchange

    @classmethod
    def of(cls, crow: Tensor, columns: Tensor, values: Tensor, shards: Shards) -> ShardedMatrix:
        """From the CSR parts of the rows here, with columns numbered over all processes."""
        needed, column = torch.unique(columns, return_inverse=True)
        local = csr_tensor(crow, column, values, (shards.n_own, len(needed)))
        return cls(local, Exchange.of(needed, shards))

    def __matmul__(self, own: Tensor) -> Tensor:
        """The product with a table of which this process has the rows ``own`` [n_own, d]: [n_own, d]."""
        product = own.new_zeros(own.shape)
        multiply = csr_multiplier(self.local)
        for source, target in zip(own.split(COLUMNS, dim=1), product.split(COLUMNS, dim=1), strict=True):
            rows = self.exchange.rows(source)
            if len(own):
                target.copy_(multiply(rows))
        return product

    def times_csr(self, own: Tensor) -> Tensor:
        """The same for a CSR table."""
        product = csr_to_scipy(self.local) @ csr_to_scipy(self.exchange.csr_rows(own))
        return csr_from_scipy(product).to(own.device)


def diagonal(matrix: Tensor, begin: int) -> Tensor:
    """The entries (i, begin + i) of the rows ``begin`` … of a square CSR matrix, in which all of them exist: [rows]."""
    row = torch.repeat_interleave(matrix.crow_indices().diff(), output_size=len(matrix.values()))
    return matrix.values()[row + begin == matrix.col_indices()]


def sharded_row_table(x: Tensor, adjacency: ShardedMatrix, n_hops: int | None, shards: Shards) -> RowTable:
    """The rows of ``row_table`` that this process has, from its rows ``x`` of the features."""
    blocks = [unit_rows(x.to_dense() if x.is_cuda else x)]
    is_sparse = blocks[0].layout == torch.sparse_csr
    n_products = {None: 0, 0: 1}.get(n_hops, n_hops) or 0
    for _ in range(n_products):
        blocks.append(adjacency.times_csr(blocks[-1]) if is_sparse else adjacency @ blocks[-1])
    blocks = blocks[1:] if n_hops == 0 else [HOP_LENGTH * unit_rows(block) for block in blocks]
    if not is_sparse:
        return RowTable.of(fastest_layout(torch.cat(blocks, dim=1)))
    table = csr_from_scipy(sp.hstack([csr_to_scipy(block) for block in blocks], format="csr"))
    # All processes choose the same layout, on which the random numbers of dropout depend.
    nnz = int(shards.sum(torch.tensor([table.values().numel()])))
    return RowTable.of(table if factored_product_is_faster(nnz, (shards.n, table.shape[1])) else table.to_dense())
