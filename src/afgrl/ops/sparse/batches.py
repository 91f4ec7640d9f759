"""Batches of rows of an encoder's input, dense or sparse, with dropout."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from afgrl.csr import csr_to_scipy
from afgrl.ops.sparse.cpu import FactoredTable
from afgrl.ops.sparse.matrix import SparseMatrix

CHUNK_BYTES = 256 << 20  # of the rows and activations that one chunk of a pass over all rows holds


@dataclass(frozen=True, eq=False)
class RowTable:
    """The input of an encoder, from which batches of rows are taken; exactly one of the two is set."""

    dense: Tensor | None = None  # [n, f]
    sparse: sp.csr_array | None = None  # [n, f], on a CPU

    @classmethod
    def of(cls, x: Tensor) -> RowTable:
        return cls(sparse=csr_to_scipy(x)) if x.layout == torch.sparse_csr else cls(dense=x)

    @property
    def shape(self) -> tuple[int, int]:
        table = self.sparse if self.dense is None else self.dense
        assert table is not None
        return table.shape[0], table.shape[1]

    @property
    def device(self) -> torch.device:
        return torch.device("cpu") if self.dense is None else self.dense.device

    def rows(
        self,
        index: Tensor | slice,
        dropout: float = 0.0,
        rng: torch.Generator | None = None,
        drawn: Tensor | None = None,
    ) -> Tensor | FactoredTable:
        """Some rows; with ``dropout``, each entry is dropped with that probability and the others are scaled up.

        Dropped entries of sparse rows are removed, so that a product with the rest costs less. An entry is dropped if
        its number in ``drawn`` is below ``dropout``: of [rows, f], or of [entries] if the table is sparse; by default
        from ``rng``.
        """
        if self.dense is not None:
            batch = self.dense[index]
            if not dropout:
                return batch
            drawn = torch.rand(batch.shape, generator=rng, device=batch.device) if drawn is None else drawn
            return batch * (drawn >= dropout) / (1 - dropout)
        assert self.sparse is not None
        part = self.sparse[index if isinstance(index, slice) else index.numpy()]
        if dropout:
            drawn = torch.rand(part.nnz, generator=rng) if drawn is None else drawn
            stays = drawn.numpy() >= dropout
            before = np.concatenate([[0], stays.cumsum()])
            values = part.data[stays] * np.float32(1 / (1 - dropout))
            part = sp.csr_array((values, part.indices[stays], before[part.indptr]), shape=part.shape)
        return FactoredTable(((_with_transpose(part),),))

    def chunks(self, width: int) -> list[slice]:
        """Slices of all rows, each with at most ``CHUNK_BYTES`` of dense rows and of activations of that width."""
        n, f = self.shape
        size = max(1, CHUNK_BYTES // (4 * (width + (f if self.sparse is None else 0))))
        return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def _with_transpose(part: sp.csr_array) -> SparseMatrix:
    """A SciPy matrix with its transpose, which SciPy computes several times faster than a sort."""
    numbered = sp.csr_array((np.arange(part.nnz, dtype=np.int32), part.indices, part.indptr), shape=part.shape).tocsc()
    indptr, indices, indptr_t, indices_t, order_t = (
        torch.from_numpy(array.astype(np.int32, copy=False))
        for array in (part.indptr, part.indices, numbered.indptr, numbered.indices, numbered.data)
    )
    rows = torch.repeat_interleave(indptr.diff(), output_size=part.nnz).to(torch.int32)
    return SparseMatrix(part.shape, indptr, rows, indices, indptr_t, indices_t, order_t, torch.from_numpy(part.data))
