"""The graph type and its invariants."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from copy import copy, deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from afgrl.amounts import counted
from afgrl.csr import csr_from_scipy
from afgrl.errors import UserError
from afgrl.graph.sorted_edges import edge_keys, edges_of, reversed_keys, sort_unique, summed_weights
from afgrl.notebook import NodePlot, plot_graph

MAX_NODES = 3_000_000_000  # source * n + target must fit an int64 with room to spare
CHECKED_VALUES = 1 << 24  # features that are checked at once


@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected attributed graph. It carries no labels, so training cannot see any.

    The constructor checks and normalizes its arguments, so that an invalid graph cannot exist. ``directed=True`` is
    needed for one dataset, WikiCS as the paper used it; ``edge_index`` then holds each edge once, from row 0 to row 1.

    Weights of a repeated edge are added. The weight of an undirected edge is the mean of its two directions; a missing
    direction counts as 0. Only ratios of weights matter. If all weights are equal after that, ``edge_weight`` is None,
    so a 0/1 adjacency matrix has no weights whether or not it is symmetric.
    """

    x: Tensor  # [n, f] float32, dense or CSR
    edge_index: Tensor  # [2, e] int64, both directions, sorted by (row 0, row 1), no self-loops, no duplicates
    ids: np.ndarray = None  # type: ignore[assignment]  # [n] the user's own ids; 0…n-1 by default
    directed: bool = False
    edge_weight: Tensor | None = None  # [e] float32 above 0, equal in both directions; None: unweighted
    table_encoder: Any = field(default=None, repr=False)  # how the columns of tables became x; see data/tables

    def __post_init__(self) -> None:
        x = _checked_features(self.x)
        edge_index, weight = _checked_edges(self.edge_index, self.edge_weight, x.shape[0], directed=self.directed)
        object.__setattr__(self, "x", x)
        object.__setattr__(self, "edge_index", edge_index.to(x.device))
        object.__setattr__(self, "edge_weight", None if weight is None else weight.to(x.device))
        object.__setattr__(self, "ids", _checked_ids(self.ids, x.shape[0]))

    @property
    def n(self) -> int:
        return self.x.shape[0]

    @property
    def n_features(self) -> int:
        return self.x.shape[1]

    @property
    def n_edges(self) -> int:
        """Number of edges; an undirected edge counts once."""
        return self.edge_index.shape[1] // (1 if self.directed else 2)

    @property
    def n_isolated(self) -> int:
        linked = torch.zeros(self.n, dtype=torch.bool, device=self.edge_index.device)
        for end in self.edge_index:
            linked[end] = True
        return self.n - int(linked.sum())

    @property
    def mean_degree(self) -> float:
        """Mean number of neighbors. With edge weights, the mean effective number (Σw)² / Σw² over a node's edges."""
        if self.edge_weight is None:
            return 2 * self.n_edges / self.n
        weight = torch.stack([self.edge_weight, self.edge_weight.square()]).double().cpu()
        total, squares = torch.zeros(2, self.n, dtype=torch.float64).index_add_(1, self.edge_index[0].cpu(), weight)
        return float((total.square() / squares).nan_to_num(0.0).sum()) / self.n

    @cached_property
    def density(self) -> float:
        """Share of non-zero features; it is asked for several times, and a large table takes seconds to read."""
        filled = self.x.values().count_nonzero() if self.x.layout == torch.sparse_csr else self.x.count_nonzero()
        return int(filled) / (self.x.shape[0] * self.x.shape[1])

    @property
    def fingerprint(self) -> int:
        """A 63-bit hash of the edges, their weights and the node order."""
        keys = self.edge_index[0] * self.n + self.edge_index[1] + 1
        if self.edge_weight is not None:
            keys = keys * 0x3C6EF372FE94F82B + self.edge_weight.view(torch.int32)
        mixed = keys * 0x1B873593CC9E2D51  # integer overflow wraps the same way on every device
        mixed = (mixed ^ (mixed >> 29)) * 0x2545F4914F6CDD1D
        return (int(mixed.sum()) ^ self.n) & (2**63 - 1)

    def to(self, device: torch.device | str) -> Graph:
        moved = copy(self)  # its values were checked
        object.__setattr__(moved, "x", self.x.to(device))
        object.__setattr__(moved, "edge_index", self.edge_index.to(device))
        object.__setattr__(moved, "edge_weight", None if self.edge_weight is None else self.edge_weight.to(device))
        return moved

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        """PyTorch copies tensors of all layouts but CSR."""
        copied = copy(self)
        for name, value in vars(self).items():
            is_csr = isinstance(value, Tensor) and value.layout == torch.sparse_csr
            object.__setattr__(copied, name, value.clone() if is_csr else deepcopy(value, memo))
        return copied

    def plot(self, *, color: Any = None, max_nodes: int = 300) -> NodePlot:
        """A picture of nodes and edges for notebooks, whose selection is its ``selected_ids``; of a larger graph, it
        shows a connected sample of ``max_nodes``. ``color`` has a value for each node: numbers with a decimal point are
        a gradient, other values are groups. Needs ``pip install 'afgrl[notebook]'``."""
        return plot_graph(self.edge_index.cpu().numpy(), self.ids, color=color, max_nodes=max_nodes)

    def _repr_html_(self) -> str:
        """Shown in notebooks."""
        counts = {
            "nodes": self.n,
            "edges": self.n_edges,
            "features": self.n_features,
            "isolated nodes": self.n_isolated,
        }
        rows = "".join(f"<tr><th>{name}</th><td>{value:,}</td></tr>" for name, value in counts.items())
        return f"<table><caption>Graph</caption>{rows}</table>"

    def __repr__(self) -> str:
        kind = "CSR" if self.x.layout == torch.sparse_csr else "dense"
        edge = f"{'directed ' * self.directed}{'weighted ' * (self.edge_weight is not None)}edge"
        counts = counted(self.n, "node"), counted(self.n_edges, edge), counted(self.n_features, f"{kind} feature")
        return f"Graph({', '.join(counts)})"


def _checked_features(x: Any) -> Tensor:
    if x.is_complex() if isinstance(x, Tensor) else np.iscomplexobj(x):
        raise UserError("The features must be real numbers, but they are complex.")
    if sp.issparse(x):
        x = csr_from_scipy(x)
    elif not isinstance(x, Tensor):
        try:
            x = _tensor_of(np.ascontiguousarray(x, dtype=np.float32))
        except (TypeError, ValueError) as error:
            raise UserError(f"The features must be numbers: {error}.") from None
    elif x.layout == torch.sparse_coo:
        x = x.coalesce().to_sparse_csr()
    elif x.layout not in (torch.strided, torch.sparse_csr):
        raise UserError(f"Features must be dense, COO or CSR, not {x.layout}.")
    if x.ndim != 2:
        raise UserError(f"The features must have shape [nodes, features], but their shape is {tuple(x.shape)}.")
    if x.shape[0] == 0:
        raise UserError("The graph is empty: it has no nodes.")
    if x.shape[1] == 0:
        raise UserError("The graph has no features: x has no columns.")
    x = x.detach().to(torch.float32)
    values = x.values() if x.layout == torch.sparse_csr else x
    bad = [(first, ~torch.isfinite(part)) for first, part in _parts(values) if not bool(torch.isfinite(part).all())]
    if bad:
        count = sum(int(part.sum()) for _, part in bad)
        first, part = bad[0]
        row = first + int(part.any(dim=-1).nonzero()[0]) if part.ndim == 2 else 0
        where = "" if x.layout == torch.sparse_csr else f", first in row {row}"
        raise UserError(f"The features contain {count} NaN or infinite value(s){where}.")
    return x


def _tensor_of(values: np.ndarray) -> Tensor:
    """Shares the memory, also that of a file which is mapped for reading: nothing writes to features."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(values)


def _numbers(values: Any, what: str) -> Tensor:
    """On the CPU, from a tensor, an array of any byte order, or lists; shares the memory where it can."""
    if isinstance(values, Tensor):
        return values.detach().cpu()
    try:
        array = np.asarray(values)
    except ValueError:
        raise UserError(f"The {what} must be real numbers, in rows of the same length.") from None
    if array.dtype.kind not in "iufb":
        raise UserError(f"The {what} must be real numbers, but their type is {array.dtype}.")
    wide = array.dtype.kind == "f" and array.dtype.itemsize > 8  # a type that PyTorch does not have
    return _tensor_of(array.astype(np.float64 if wide else array.dtype.newbyteorder("="), copy=False))


def _parts(values: Tensor) -> Iterator[tuple[int, Tensor]]:
    """The first row and the rows of parts that are small enough for copies of them."""
    rows = max(CHECKED_VALUES // (values.shape[1] if values.ndim == 2 else 1), 1)
    for first in range(0, len(values), rows):
        yield first, values[first : first + rows]


def _checked_edges(edge_index: Any, weight: Any, n: int, *, directed: bool) -> tuple[Tensor, Tensor | None]:
    """On the CPU: the same bits for every device, and when a graph is rebuilt from this one."""
    edges = _numbers(edge_index, "edges")
    if edges.numel() == 0:
        return torch.empty(2, 0, dtype=torch.int64), None
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise UserError(f"The edges must have shape [2, e], but their shape is {tuple(edges.shape)}.")
    if edges.is_floating_point() or edges.is_complex() or edges.dtype == torch.bool:
        raise UserError(f"The edges must be integers, but their type is {edges.dtype}.")
    ends = edges.numpy()  # PyTorch cannot compare unsigned integers
    low, high = int(ends.min()), int(ends.max())
    if low < 0 or high >= n:
        raise UserError(f"An edge refers to node {low if low < 0 else high}, but the nodes are 0 to {n - 1}.")
    if n > MAX_NODES:
        raise UserError(f"The graph has {counted(n, 'node')}; at most {MAX_NODES:,} are possible.")
    if weight is not None:
        weight = _checked_weights(weight, edges.shape[1])
        keys, total = _summed(edge_keys(ends, n, undirected=False), weight[ends[0] != ends[1]])
        if total is not None and not directed:
            # Equal weights are found before this: a missing direction, which counts as 0, would make them differ.
            keys, total = _summed(np.concatenate([keys, reversed_keys(keys, n)]), np.tile(total / 2, 2))
        if total is not None:
            return torch.from_numpy(edges_of(keys, n, both_directions=False)), torch.from_numpy(total).float()
    keys = sort_unique(edge_keys(ends, n, undirected=not directed))
    return torch.from_numpy(edges_of(keys, n, both_directions=not directed)), None


def _summed(keys: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Each key once, sorted, with the sum of its weights in double precision; None if all sums are equal."""
    unique = sort_unique(keys.copy())
    total = summed_weights(unique, keys, weight)
    single = total.astype(np.float32)  # in single precision .1 + .2 equals .3
    return unique, None if bool((single == single[:1]).all()) else total


def _checked_weights(weight: Any, n_edges: int) -> np.ndarray:
    """[e] float64."""
    values = _numbers(weight, "edge weights").to(torch.float32)
    if values.shape != (n_edges,):
        raise UserError(
            f"The graph has {counted(n_edges, 'edge')}, but the edge weights have shape {tuple(values.shape)}."
        )
    if not bool((torch.isfinite(values) & (values > 0)).all()):
        raise UserError("Edge weights must be finite and above 0.")
    return values.to(torch.float64).numpy()


def as_text(ids: Any) -> np.ndarray:
    """Ids as an object array of strings; a NumPy string array would pad each to the longest."""
    if isinstance(ids, np.ndarray) and ids.dtype.kind == "S":
        return np.char.decode(ids, "utf-8", "backslashreplace").astype(object)
    if isinstance(ids, np.ndarray) and ids.dtype.kind not in "OU":
        return ids.astype(str).astype(object)
    names = np.empty(len(ids), dtype=object)
    names[:] = [str(name) for name in ids]
    return names


def _checked_ids(ids: Any, n: int) -> np.ndarray:
    if ids is None:
        return np.arange(n)
    # NetworkX ids may be tuples, which NumPy would turn into a 2-D array.
    given = np.asarray(ids) if hasattr(ids, "__array__") else list(ids) if isinstance(ids, Iterable) else None
    if given is None or (isinstance(given, np.ndarray) and given.ndim == 0):
        raise UserError(f"The ids must be a sequence with one id per node, not {ids!r}.")
    if isinstance(given, list) and all(isinstance(name, (int, np.integer)) for name in given):
        given = np.array(given)
    if isinstance(given, np.ndarray):
        if given.ndim != 1:
            raise UserError(f"The ids must have shape [{n}], one per node, but their shape is {given.shape}.")
        given = given.astype(given.dtype.newbyteorder("="), copy=False)
    whole = isinstance(given, np.ndarray) and given.dtype.kind in "iu"
    names: np.ndarray = np.asarray(given) if whole else as_text(given)
    if names.shape != (n,):
        raise UserError(f"The graph has {counted(n, 'node')} but {counted(names.shape[0], 'id')}.")
    if len(np.unique(names) if whole else set(names.tolist())) != n:
        values, counts = np.unique(names, return_counts=True)
        raise UserError(f"The id {values[counts.argmax()]!r} occurs {counts.max()} times; ids must be unique.")
    return names
