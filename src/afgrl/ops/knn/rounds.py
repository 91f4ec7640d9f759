"""Which process compares which queries with which keys of a search in clusters, and in which round."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

Units = tuple[int, int]  # from and to


class Rounds(NamedTuple):
    """The comparisons of all clusters in units of work, in an order that all processes know.

    The keys and the queries of a cluster are divided into as many ``parts``, and a unit compares one part of the keys
    with one part of the queries. Nearly every cluster has one part. A cluster has more if it has too many rows for a
    round or more than the share of work of a process, for instance if most nodes are equal.
    """

    parts: Tensor  # [c] int32
    first: Tensor  # [c] int32, the first unit of each cluster
    n_units: int
    units: list[list[Units]]  # for each round those of each process

    @classmethod
    def of(cls, n_keys: Tensor, n_queries: Tensor, max_rows: int, n_processes: int) -> Rounds:
        """From keys and queries of each cluster [c], so that a process has at most ``max_rows`` of both in a round.

        A process has contiguous units, with about as much work as each of the others.
        """
        n_keys, n_queries = n_keys.cpu().double(), n_queries.cpu().double()
        work = n_keys * n_queries
        shares = work * n_processes / work.sum().clamp(min=1)
        fewest = torch.maximum(shares.sqrt(), torch.maximum(n_keys, n_queries) * 2 / max_rows)
        parts = fewest.ceil().clamp(min=1).int()
        each = (parts * parts).long()
        share = (shares / each).repeat_interleave(each)
        rows = ((n_keys + n_queries) / parts).repeat_interleave(each)
        process = (share.cumsum(0) - share / 2).long().clamp(max=n_processes - 1)
        units = _in_rounds(process.tolist(), rows.tolist(), max_rows, n_processes)
        return cls(parts, (each.cumsum(0) - each).int(), len(rows), units)

    def of_keys(self, clusters: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The units of keys in these clusters [r] and their positions among the keys: both [p] int32.

        ``rows`` [r] are their row numbers in this process, by which parts are divided.
        """
        at, part, other, parts = self._repeated(clusters, rows)
        return self.first.to(at.device)[clusters[at]] + part * parts + other, at

    def of_queries(self, clusters: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The same for queries."""
        at, part, other, parts = self._repeated(clusters, rows)
        return self.first.to(at.device)[clusters[at]] + other * parts + part, at

    def _repeated(self, clusters: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Each row once for every part that it is compared with: its position, its own part, the other one, and the
        number of parts."""
        parts = self.parts.to(clusters.device)[clusters]
        at = torch.arange(len(parts), dtype=torch.int32, device=parts.device).repeat_interleave(parts)
        other = torch.arange(len(at), dtype=torch.int32, device=at.device) - (parts.cumsum(0).int() - parts)[at]
        return at, (rows % parts)[at], other, parts[at]


def _in_rounds(process: list[int], rows: list[float], max_rows: int, n_processes: int) -> list[list[Units]]:
    """Units in order, of which ``process`` is ascending; a process begins a round when the last one is full."""
    units: list[list[Units]] = [[] for _ in range(n_processes)]
    filled = 0.0
    for unit, (rank, n_rows) in enumerate(zip(process, rows, strict=True)):
        if units[rank] and filled + n_rows <= max_rows:
            units[rank][-1] = (units[rank][-1][0], unit + 1)
            filled += n_rows
        else:
            units[rank].append((unit, unit + 1))
            filled = n_rows
    n_rounds = max(map(len, units))
    return [[own[number] if number < len(own) else (0, 0) for own in units] for number in range(n_rounds)]
