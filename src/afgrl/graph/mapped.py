"""A graph in files, of which each of several processes reads the rows that it needs."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class MappedGraph:
    """A graph as ``Graph`` is one, whose tensors are mapped files: pages of them are read when they are used, shared by
    the processes of a machine, and dropped when memory is needed. Writing or opening them has checked them."""

    x: Tensor  # [n, f] float32, dense or CSR; the columns of CSR may be int32
    edge_index: Tensor  # [2, e] int32 or int64, sorted like that of ``Graph``
    directed: bool
    edge_weight: Tensor | None  # [e] float32

    @property
    def n(self) -> int:
        return self.x.shape[0]

    @property
    def n_features(self) -> int:
        return self.x.shape[1]
