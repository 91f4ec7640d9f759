"""Rows that a process needs from others, again and again: who sends which rows is agreed once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from afgrl.csr import csr_tensor
from afgrl.ops.collectives import Shards


@dataclass(frozen=True, eq=False)
class Exchange:
    """Fetches the rows ``needed`` of a table whose rows are spread over the processes."""

    shards: Shards
    needed: Tensor  # [r] int64, ascending, numbered over all processes
    wanted: list[Tensor]  # for each process, the rows here that it needs, numbered from the first row here

    @classmethod
    def of(cls, needed: Tensor, shards: Shards) -> Exchange:
        wanted = shards.swap(_by_owner(needed, shards))
        return cls(shards, needed, [rows - shards.begin for rows in wanted])

    def rows(self, own: Tensor) -> Tensor:
        """From the rows here, [n_own, d], those that are needed here: [r, d]."""
        return torch.cat(self.shards.swap([own[rows] for rows in self.wanted]))

    def csr_rows(self, own: Tensor) -> Tensor:
        """The same for a CSR tensor."""
        length = own.crow_indices().diff()
        entries = [_entries(own.crow_indices(), rows) for rows in self.wanted]
        lengths, columns, values = (
            torch.cat(self.shards.swap([part[number] for number in numbers]))
            for part, numbers in ((length, self.wanted), (own.col_indices(), entries), (own.values(), entries))
        )
        crow = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
        return csr_tensor(crow, columns, values, (len(self.needed), own.shape[1]))


def _by_owner(ascending: Tensor, shards: Shards) -> list[Tensor]:
    first = torch.tensor([shards.begin_of(rank) for rank in range(1, shards.size)], device=ascending.device)
    return list(torch.tensor_split(ascending, torch.searchsorted(ascending, first).tolist()))


def _entries(crow: Tensor, rows: Tensor) -> Tensor:
    """The numbers of all entries of these rows of a CSR tensor, row by row."""
    length = crow[rows + 1] - crow[rows]
    before = length.cumsum(0) - length
    row = torch.repeat_interleave(length)
    return crow[rows][row] + torch.arange(len(row), device=crow.device) - before[row]
