"""The sparse matrix type that products, pair losses and random walks share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

SEGMENT = 64  # entries; a GPU program that sums one long row alone would finish long after all others


class RowSplit(NamedTuple):
    """Rows cut into segments of at most ``SEGMENT`` entries, so that all programs of a GPU have similar work."""

    begin: Tensor  # [s] int64: first entry of each segment
    end: Tensor  # [s] int64: one past its last entry
    output: Tensor  # [s] int64: row of the output for its sum: its own if it is the whole row, else n, n + 1, …
    long_rows: Tensor  # [r] int64: rows of several segments
    partial_begin: (
        Tensor  # [r + 1] int64: long row i is the sum of the outputs partial_begin[i] … partial_begin[i + 1] - 1
    )


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """A sparse matrix in CSR form, with the CSR form of its transpose for the gradient of a product.

    Entries are numbered row by row. Their positions are fixed while values may change from step to step: a dropped
    entry gets the value 0. So no shape depends on random draws, and a step can be captured in a CUDA graph. All index
    tensors are int64, or all are int32.
    """

    shape: tuple[int, int]  # (n, m)
    indptr: Tensor  # [n + 1] row i has the entries indptr[i] … indptr[i + 1] - 1
    rows: Tensor  # [e] row of each entry, ascending
    indices: Tensor  # [e] column of each entry
    indptr_t: Tensor  # [m + 1] row j of the transpose has its entries indptr_t[j] … indptr_t[j + 1] - 1
    indices_t: Tensor  # [e] column of each entry of the transpose
    order_t: Tensor  # [e] number of that entry in this matrix
    values: Tensor | None = None  # [e] float32; None: all 1
    row_split: RowSplit | None = None  # for GPUs; None: every row is one segment
    row_split_t: RowSplit | None = None  # of the transpose

    @classmethod
    def from_coo(
        cls,
        rows: Tensor,
        columns: Tensor,
        shape: tuple[int, int],
        values: Tensor | None = None,
        *,
        split_rows: bool = False,
    ) -> SparseMatrix:
        """Entries at (rows[i], columns[i]), ``rows`` ascending.

        Without ``split_rows`` all shapes depend on those of the arguments only, and nothing synchronizes with a GPU.
        """
        all_rows = torch.arange(shape[0] + 1, dtype=rows.dtype, device=rows.device)
        indptr = torch.searchsorted(rows, all_rows, out_int32=rows.dtype == torch.int32)
        indptr_t, indices_t, order_t = _transpose(rows, columns, shape[1])
        splits = (row_split(indptr), row_split(indptr_t)) if split_rows else (None, None)
        return cls(shape, indptr, rows, columns, indptr_t, indices_t, order_t, values, *splits)

    @classmethod
    def from_csr(
        cls, matrix: Tensor, *, split_rows: bool = False, index_dtype: torch.dtype = torch.int64
    ) -> SparseMatrix:
        """The matrix of a CSR tensor, with its values."""
        columns = matrix.col_indices().to(index_dtype)
        rows = torch.repeat_interleave(matrix.crow_indices().diff(), output_size=len(columns)).to(index_dtype)
        return cls.from_coo(rows, columns, (matrix.shape[0], matrix.shape[1]), matrix.values(), split_rows=split_rows)

    @property
    def nnz(self) -> int:
        return len(self.indices)

    @property
    def on_diagonal(self) -> Tensor:
        """Which entries are on the diagonal, the self-loops of an adjacency matrix: [e] bool."""
        return self.rows == self.indices

    @property
    def explicit_values(self) -> Tensor:
        """The values, also if all are 1: [e] float32."""
        return self.rows.new_ones(self.nnz, dtype=torch.float32) if self.values is None else self.values

    def set_values(self, values: Tensor) -> None:
        """Overwrites the values in place."""
        assert self.values is not None
        self.values.copy_(values)

    def copy_(self, new: SparseMatrix) -> None:
        """Overwrites all entries in place, so that a captured CUDA graph reads the new ones; ``nnz`` must be equal."""
        assert self.row_split is None, "the number of segments depends on the entries"
        for own, other in zip(self._tensors(), new._tensors(), strict=True):
            own.copy_(other)

    def _tensors(self) -> tuple[Tensor, ...]:
        tensors = (self.indptr, self.rows, self.indices, self.indptr_t, self.indices_t, self.order_t)
        return tensors if self.values is None else (*tensors, self.values)


def _transpose(rows: Tensor, columns: Tensor, n_columns: int) -> tuple[Tensor, Tensor, Tensor]:
    # The time of a sort on a GPU is proportional to the bytes of a key.
    small = torch.int16 if n_columns < 2**15 else torch.int32 if n_columns < 2**31 else torch.int64
    ascending, order = torch.sort(columns.to(small), stable=True)
    all_columns = torch.arange(n_columns + 1, dtype=small, device=columns.device)
    indptr = torch.searchsorted(ascending, all_columns, out_int32=columns.dtype == torch.int32)
    return indptr, rows[order], order.to(columns.dtype)


def whole_rows(indptr: Tensor) -> RowSplit:
    """One segment per row, for matrices whose row lengths may change between replays of a CUDA graph."""
    rows = torch.arange(len(indptr), device=indptr.device)
    return RowSplit(indptr[:-1], indptr[1:], rows[:-1], rows[:0], rows[:1])


def row_split(indptr: Tensor) -> RowSplit:
    """The segments of the rows of a CSR matrix."""
    n = len(indptr) - 1
    count = (indptr.diff() + SEGMENT - 1).div(SEGMENT, rounding_mode="floor").clamp(min=1)  # [n] segments per row
    row = torch.repeat_interleave(count)
    number = torch.arange(len(row), device=indptr.device) - (count.cumsum(0) - count)[row]  # within the row
    begin = indptr[row] + number * SEGMENT
    long_rows = (count > 1).nonzero().squeeze(1)
    partial_begin = F.pad(count[long_rows].cumsum(0), (1, 0)) + n
    output, is_partial = row.clone(), count[row] > 1
    output[is_partial] = n + torch.arange(int(is_partial.sum()), device=indptr.device)
    return RowSplit(begin, torch.minimum(begin + SEGMENT, indptr[row + 1]), output, long_rows, partial_begin)
