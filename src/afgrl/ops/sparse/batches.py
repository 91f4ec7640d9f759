"""Batches of rows of an encoder's input, dense or sparse, with dropout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from afgrl.csr import csr_to_scipy
from afgrl.ops.collectives import ONE_PROCESS, Shards
from afgrl.ops.sparse import spmm
from afgrl.ops.sparse.cpu import FactoredTable
from afgrl.ops.sparse.matrix import SparseMatrix

CHUNK_BYTES = 256 << 20  # of the rows and activations that one chunk of a pass over all rows holds


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Sparse rows on a GPU. They support ``rows @ w`` only, whose gradient flows to w."""

    matrix: SparseMatrix

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape

    def __matmul__(self, w: Tensor) -> Tensor:
        return spmm(self.matrix, w)


Rows = Tensor | FactoredTable | SparseRows


class Batch(NamedTuple):
    """Rows of a batch that are here, and which they are."""

    x: Rows  # [rows, f]
    rows: Tensor | slice  # numbered from the first row here
    n_rows: int  # of the batch, in all processes


@dataclass(frozen=True, eq=False)
class SampledRows:
    """Some rows of all processes, the same in each of them. They support ``rows @ w`` only, without gradients."""

    own: Rows | None  # those that are here, if any
    is_here: Tensor  # [rows] bool
    shards: Shards
    shape: tuple[int, int]

    def __matmul__(self, w: Tensor) -> Tensor:
        return self.shards.joined(w.new_zeros(0, w.shape[1]) if self.own is None else self.own @ w, self.is_here)


@dataclass(frozen=True, eq=False)
class RowTable:
    """The input of an encoder, from which batches of rows are taken; exactly one of the first three is set.

    It has the rows of this process. Whatever the number of processes, they draw the same batch and the same dropout
    from the same generator, and each takes the rows it has.
    """

    dense: Tensor | None = None  # [n_own, f]
    sparse: sp.csr_array | None = None  # [n_own, f], on a CPU
    csr: Tensor | None = None  # [n_own, f], on a GPU
    shards: Shards = ONE_PROCESS
    lengths: Tensor | None = None  # [n] entries of the rows of all processes, if they are distributed and sparse

    @classmethod
    def of(cls, x: Tensor, shards: Shards | None = None) -> RowTable:
        shards = shards or Shards(x.shape[0])
        if x.layout != torch.sparse_csr:
            return cls(dense=x, shards=shards)
        lengths = shards.gather(x.crow_indices().diff()) if shards.distributed else None
        if x.is_cuda:
            return cls(csr=x, shards=shards, lengths=lengths)
        return cls(sparse=csr_to_scipy(x), shards=shards, lengths=lengths)

    @property
    def shape(self) -> tuple[int, int]:
        table = next(table for table in (self.dense, self.sparse, self.csr) if table is not None)
        return table.shape[0], table.shape[1]

    @property
    def device(self) -> torch.device:
        table = self.csr if self.dense is None else self.dense
        return torch.device("cpu") if table is None else table.device

    @property
    def has_fixed_sizes(self) -> bool:
        """Whether all batches have as many rows here and as many entries, so that a step can be captured in a CUDA
        graph."""
        return self.csr is None and not self.shards.distributed

    def batch(self, size: int, dropout: float, rng: torch.Generator) -> Batch:
        """Random rows of all processes, or all of them if there are at most ``size``; of these, the ones here."""
        n = self.shards.n
        drawn = torch.randint(n, (size,), generator=rng, device=self.device) if size < n else slice(None)
        n_rows = min(size, n)
        if not self.shards.distributed:
            return Batch(self.rows(drawn, dropout, rng), drawn, n_rows)
        rows = torch.arange(n, device=self.device) if isinstance(drawn, slice) else drawn
        is_here = self.shards.owns(rows)
        own = rows[is_here] - self.shards.begin
        numbers = self._numbers_for_dropout(rows, is_here, rng) if dropout else None
        return Batch(self.rows(own, dropout, drawn=numbers), own, n_rows)

    def _numbers_for_dropout(self, rows: Tensor, is_here: Tensor, rng: torch.Generator) -> Tensor:
        """The random numbers of the rows here, from those that every process draws for the whole batch."""
        if self.lengths is None:
            numbers = torch.rand(len(rows), self.shape[1], generator=rng, device=self.device)
            return numbers[is_here]
        lengths = self.lengths[rows]
        numbers = torch.rand(int(lengths.sum()), generator=rng, device=self.device)
        return numbers[torch.repeat_interleave(is_here, lengths)]

    def sample(self, rows: Tensor) -> Rows | SampledRows:
        """The rows with these numbers, of all processes."""
        if not self.shards.distributed:
            return self.rows(rows)
        is_here = self.shards.owns(rows)
        own = self.rows(rows[is_here] - self.shards.begin) if is_here.any() else None
        return SampledRows(own, is_here, self.shards, (len(rows), self.shape[1]))

    def rows(
        self,
        index: Tensor | slice,
        dropout: float = 0.0,
        rng: torch.Generator | None = None,
        drawn: Tensor | None = None,
    ) -> Rows:
        """Some rows of those here; with ``dropout``, each entry is dropped with that probability and the others are
        scaled up.

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
        if self.csr is not None:
            return SparseRows(_csr_rows(self.csr, index, dropout, rng, drawn))
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
        size = max(1, CHUNK_BYTES // (4 * (width + (0 if self.dense is None else f))))
        return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def _csr_rows(
    table: Tensor, index: Tensor | slice, dropout: float, rng: torch.Generator | None, drawn: Tensor | None
) -> SparseMatrix:
    """Some rows of a CSR tensor on its own device; dropped entries stay, with the value 0."""
    crow, n_columns = table.crow_indices(), table.shape[1]
    rows = torch.arange(table.shape[0], device=crow.device)[index] if isinstance(index, slice) else index
    counts = crow[rows + 1] - crow[rows]
    row = torch.repeat_interleave(counts)
    within = torch.arange(len(row), device=crow.device) - (counts.cumsum(0) - counts)[row]
    entry = crow[rows][row] + within
    values = table.values()[entry]
    if dropout:
        drawn = torch.rand(len(values), generator=rng, device=values.device) if drawn is None else drawn
        values = values * (drawn >= dropout) / (1 - dropout)
    return SparseMatrix.from_coo(row, table.col_indices()[entry], (len(rows), n_columns), values)


def _with_transpose(part: sp.csr_array) -> SparseMatrix:
    """A SciPy matrix with its transpose, which SciPy computes several times faster than a sort."""
    numbered = sp.csr_array((np.arange(part.nnz, dtype=np.int32), part.indices, part.indptr), shape=part.shape).tocsc()
    indptr, indices, indptr_t, indices_t, order_t = (
        torch.from_numpy(array.astype(np.int32, copy=False))
        for array in (part.indptr, part.indices, numbered.indptr, numbered.indices, numbered.data)
    )
    rows = torch.repeat_interleave(indptr.diff(), output_size=part.nnz).to(torch.int32)
    return SparseMatrix(part.shape, indptr, rows, indices, indptr_t, indices_t, order_t, torch.from_numpy(part.data))
