"""Sparse products whose rows are spread over several processes.

A process has some rows of the matrix and of the table it is multiplied with. It fetches the rows of the table that its
rows of the matrix refer to, 64 columns at a time, so that memory is bounded by 64 numbers per row that it needs. Sums
have the order of the columns, whatever the number of processes, so the result has the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from afgrl.csr import csr_from_scipy, csr_tensor, csr_to_scipy
from afgrl.ops.collectives import Shards
from afgrl.ops.collectives.exchange import Exchange
from afgrl.ops.sparse import csr_multiplier
from afgrl.ops.sparse.cpu import COLUMNS


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
        """The product with a table of which this process has the rows ``own`` [n_own, d], dense or CSR: [n_own, d]."""
        if own.layout == torch.sparse_csr:
            sparse = csr_to_scipy(self.local) @ csr_to_scipy(self.exchange.csr_rows(own))
            return csr_from_scipy(sparse).to(own.device)
        product = own.new_zeros(own.shape)
        multiply = csr_multiplier(self.local)
        for source, target in zip(own.split(COLUMNS, dim=1), product.split(COLUMNS, dim=1), strict=True):
            rows = self.exchange.rows(source)
            if len(own):
                target.copy_(multiply(rows))
        return product

    def diagonal(self) -> Tensor:
        """The entries (i, i) of the rows here, all of which exist: [n_own]."""
        column = self.exchange.needed[self.local.col_indices()]
        row = torch.repeat_interleave(self.local.crow_indices().diff(), output_size=len(column))
        return self.local.values()[row + self.exchange.shards.begin == column]
