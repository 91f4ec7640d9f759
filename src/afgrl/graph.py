"""The one graph type: undirected, attributed, without labels."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from afgrl.csr import csr_from_scipy
from afgrl.errors import UserError

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    from torch_geometric.data import Data

    from afgrl.data import Dataset
    from afgrl.data.files.encode import Encoder
    from afgrl.data.files.structure import Structure

MAX_NODES = 3_000_000_000  # source * n + target must fit an int64 with room to spare


@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected attributed graph. It carries no labels, so training cannot see any.

    Whatever is passed in, the fields afterwards hold what their comments say: an invalid graph
    cannot be built. ``directed`` exists for one user, WikiCS as the paper had it; then ``edge_index``
    holds each edge once, from row 0 to row 1.

    An edge may be given several times: its weights are added. The weight of an undirected edge is the mean of those of
    its two directions, of which one that is not given counts 0. Only ratios of weights matter, so that units do not,
    and weights that are all alike once added are none: a matrix of zeros and ones has no weights, whether or not it is
    symmetric.
    """

    x: Tensor  # [n, f] float32, dense or CSR
    edge_index: Tensor  # [2, e] int64, both directions, sorted by (row 0, row 1), no self-loops, no duplicates
    ids: np.ndarray = None  # type: ignore[assignment]  # [n] the user's own names; 0…n-1 when not given
    directed: bool = False
    edge_weight: Tensor | None = None  # [e] float32 above 0, the same in both directions; None: all alike
    encoder: Encoder | Structure | None = field(default=None, repr=False)  # how columns of tables became x

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
        """Edges as people count them: an undirected edge once."""
        return self.edge_index.shape[1] // (1 if self.directed else 2)

    @property
    def n_isolated(self) -> int:
        return self.n - int(torch.unique(self.edge_index).numel())

    @property
    def mean_degree(self) -> float:
        """Neighbors of a node; where edges have weights, as many of equal weight as would share them as evenly,
        (Σw)² / Σw² of its edges."""
        if self.edge_weight is None:
            return 2 * self.n_edges / self.n
        weight = torch.stack([self.edge_weight, self.edge_weight.square()]).double().cpu()
        total, squares = torch.zeros(2, self.n, dtype=torch.float64).index_add_(1, self.edge_index[0].cpu(), weight)
        return float((total.square() / squares).nan_to_num(0.0).sum()) / self.n

    @property
    def density(self) -> float:
        """The share of features that are not zero."""
        filled = self.x.values().count_nonzero() if self.x.layout == torch.sparse_csr else self.x.count_nonzero()
        return int(filled) / (self.x.shape[0] * self.x.shape[1])

    @property
    def fingerprint(self) -> int:
        """A number of 63 bits that another set of edges, or another numbering of the nodes, hardly has too."""
        keys = self.edge_index[0] * self.n + self.edge_index[1] + 1
        if self.edge_weight is not None:
            keys = keys * 0x3C6EF372FE94F82B + self.edge_weight.view(torch.int32)
        mixed = keys * 0x1B873593CC9E2D51  # integers wrap around, on every device alike
        mixed = (mixed ^ (mixed >> 29)) * 0x2545F4914F6CDD1D
        return (int(mixed.sum()) ^ self.n) & (2**63 - 1)

    def to(self, device: torch.device | str) -> Graph:
        weight = None if self.edge_weight is None else self.edge_weight.to(device)
        return replace(self, x=self.x.to(device), edge_index=self.edge_index.to(device), edge_weight=weight)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
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
        edges = f"{'directed ' * self.directed}{'weighted ' * (self.edge_weight is not None)}edges"
        return f"Graph({self.n:,} nodes, {self.n_edges:,} {edges}, {self.n_features:,} {kind} features)"

    @classmethod
    def of(cls, source: Any, *, like: Graph | Encoder | Structure | None = None) -> Graph:
        """A graph from whatever a user is likely to hold: Graph, PyG ``Data``, (adjacency, features), (nodes, edges) as
        DataFrames, about which ``like`` is as in ``from_pandas``, NetworkX."""
        if isinstance(source, Graph):
            return source
        if isinstance(source, (tuple, list)) and len(source) == 2:
            frames = hasattr(source[0], "columns")
            return cls.from_pandas(*source, like=like) if frames else cls.from_scipy(*source)
        if hasattr(source, "edge_index") and hasattr(source, "x"):
            return cls.from_pyg(source)
        if hasattr(source, "adj") and hasattr(source, "nodes"):
            return cls.from_networkx(source, like=like)
        raise UserError(
            f"A {type(source).__name__} is not a graph; pass a Graph, a PyG Data, a pair (adjacency, features) "
            "or (nodes, edges), or a NetworkX graph."
        )

    @classmethod
    def from_pyg(cls, data: Data, *, ids: Any = None, directed: bool = False) -> Graph:
        """From a PyG ``Data`` with ``x``, ``edge_index`` and, if it has them, ``edge_weight``; its labels and masks are
        left behind."""
        for name in ("x", "edge_index"):
            if getattr(data, name, None) is None:
                raise UserError(f"The PyG Data has no {name!r}; it needs 'x' and 'edge_index'.")
        return cls(data.x, data.edge_index, ids, directed, getattr(data, "edge_weight", None))

    @classmethod
    def from_scipy(cls, adjacency: Any, features: Any, *, ids: Any = None, directed: bool = False) -> Graph:
        """From a square (sparse) matrix whose non-zeros are the weights of edges, and an [n, f] (sparse) matrix of
        features."""
        matrix = sp.coo_array(adjacency)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise UserError(f"The adjacency must be square, but its shape is {matrix.shape}.")
        n_rows = np.shape(features)[0] if np.ndim(features) else 0
        if n_rows != matrix.shape[0]:
            raise UserError(f"The adjacency has {matrix.shape[0]} nodes but the features have {n_rows} rows.")
        matrix.eliminate_zeros()
        edge_index = torch.from_numpy(np.stack([matrix.row, matrix.col]).astype(np.int64))
        return cls(features, edge_index, ids, directed, torch.from_numpy(matrix.data.astype(np.float32)))

    @classmethod
    def from_pandas(
        cls, nodes: pd.DataFrame, edges: pd.DataFrame, *, id: str | None = None, source: str | None = None,
        target: str | None = None, label: str | None = None, weight: str | None = None,
        columns: dict[str, str] | None = None, like: Graph | Encoder | Structure | None = None,
    ) -> Graph:  # fmt: skip
        """From tables of nodes and edges, as `afgrl fit` reads them from files: names of columns that are not given are
        guessed, numbers are standardized, categories become columns, text TF-IDF. A label is left behind.

        ``columns`` tells kinds: ``{"zip": "category", "remarks": "ignore"}``. Where no column names the nodes, the
        index of ``nodes`` does. ``like`` is an earlier graph of tables, or its ``encoder``: its means, categories and
        words count again. What was repaired or is suspicious is a warning.
        """
        from afgrl.data.files.frames import graph_of_frames  # late: only here does a graph know of tables

        told = (id, source, target, label, weight, columns or {})
        return _with_warnings(graph_of_frames(nodes, edges, *told, _encoder_of(like)))

    @classmethod
    def from_networkx(
        cls, graph: nx.Graph, *, features: str | None = None, weight: str = "weight", directed: bool = False,
        like: Graph | Encoder | Structure | None = None,
    ) -> Graph:  # fmt: skip
        """From a NetworkX graph whose nodes carry their vector (or number) under the attribute ``features``, by default
        ``x``; its edges may have an attribute ``weight``, which is 1 where only some have it.

        Where no node has an ``x``, their attributes become features as columns of a table do (``from_pandas``, and
        ``like`` is as there); nodes without any get structural ones.
        """
        names = list(graph.nodes)
        if features is None and names and not directed and not any("x" in graph.nodes[name] for name in names):
            from afgrl.data.files.formats import graph_of_network  # late, as for tables

            return _with_warnings(graph_of_network(graph, weight, _encoder_of(like)))
        features = features or "x"
        position = {name: i for i, name in enumerate(names)}
        lacking = next((name for name in names if features not in graph.nodes[name]), None)
        if lacking is not None:
            raise UserError(f"Node {lacking!r} of the NetworkX graph has no attribute {features!r}.")
        rows = [np.atleast_1d(np.asarray(graph.nodes[name][features])) for name in names]
        if len({row.shape for row in rows}) > 1:
            raise UserError(f"The nodes' attribute {features!r} must have one length for all nodes.")
        edges = [(position[u], position[v]) for u, v in graph.edges()]
        edge_index = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T
        try:
            weights = torch.tensor([float(value) for _, _, value in graph.edges(data=weight, default=1.0)])
        except (TypeError, ValueError):
            raise UserError(f"The edges' attribute {weight!r} must be a number wherever it is there.") from None
        features_table = np.stack(rows) if rows else np.zeros((0, 1))
        x, ids = _checked_features(features_table), _checked_ids(names, len(names))
        weighted = any(weight in attributes for _, _, attributes in graph.edges(data=True))
        return cls(x, edge_index, ids, directed, weights if weighted else None)


def _encoder_of(like: Graph | Encoder | Structure | None) -> Encoder | Structure | None:
    if isinstance(like, Graph) and like.encoder is None:
        raise UserError("The graph that this one is to be like was not made of tables.")
    return like.encoder if isinstance(like, Graph) else like


def _with_warnings(dataset: Dataset) -> Graph:
    """The graph of tables; what was repaired in them, or is suspicious, is a warning to who made it."""
    for note in dataset.reading.notes.all if dataset.reading else []:
        if note.kind != "understood":
            warnings.warn(note.text, stacklevel=3)
    return dataset.graph


def _checked_features(x: Any) -> Tensor:
    if x.is_complex() if isinstance(x, Tensor) else np.iscomplexobj(x):
        raise UserError("The features must be real numbers, but they are complex.")
    if sp.issparse(x):
        x = csr_from_scipy(x)
    elif not isinstance(x, Tensor):
        try:
            x = torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32))
        except (TypeError, ValueError) as error:
            raise UserError(f"The features must be numbers, but this was given: {error}.") from None
    elif x.layout == torch.sparse_coo:
        x = x.coalesce().to_sparse_csr()
    elif x.layout not in (torch.strided, torch.sparse_csr):
        raise UserError(f"Features are dense, COO or CSR, not {x.layout}.")
    if x.ndim != 2:
        raise UserError(f"The features must be a table [nodes, features], but their shape is {tuple(x.shape)}.")
    if x.shape[0] == 0:
        raise UserError("The graph is empty: it has no nodes.")
    if x.shape[1] == 0:
        raise UserError("The graph has no features: its feature table has no columns.")
    x = x.detach().to(torch.float32)
    values = x.values() if x.layout == torch.sparse_csr else x
    if not bool(torch.isfinite(values).all()):
        bad = int((~torch.isfinite(values)).sum())
        where = "" if x.layout == torch.sparse_csr else f", the first in row {_first_bad_row(x)}"
        raise UserError(f"The features hold {bad} value(s) that are NaN or infinite{where}.")
    return x


def _first_bad_row(x: Tensor) -> int:
    return int((~torch.isfinite(x)).any(dim=1).nonzero()[0])


def _checked_edges(edge_index: Any, weight: Any, n: int, *, directed: bool) -> tuple[Tensor, Tensor | None]:
    edges = torch.as_tensor(edge_index)
    if edges.numel() == 0:
        return torch.empty(2, 0, dtype=torch.int64), None
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise UserError(f"The edges must have shape [2, e], but their shape is {tuple(edges.shape)}.")
    if edges.is_floating_point() or edges.is_complex() or edges.dtype == torch.bool:
        raise UserError(f"The edges must be whole numbers, but their type is {edges.dtype}.")
    edges = edges.to(torch.int64)
    low, high = int(edges.min()), int(edges.max())
    if low < 0 or high >= n:
        raise UserError(f"An edge names node {low if low < 0 else high}, but the nodes are 0 to {n - 1}.")
    if n > MAX_NODES:
        raise UserError(f"The graph has {n:,} nodes; at most {MAX_NODES:,} are possible.")
    real = edges[0] != edges[1]
    weight = None if weight is None else _checked_weights(weight, edges.shape[1])[real.cpu()]
    edges = edges[:, real]
    if weight is not None:  # before the directions meet: else one that is not given would make alike weights differ
        edges, weight = _added(edges, weight, n)
    if not directed:
        edges = torch.cat([edges, edges.flip(0)], dim=1)
        weight = None if weight is None else torch.cat([weight, weight]) / 2
    edges, weight = _added(edges, weight, n)
    return edges, None if weight is None else weight.to(torch.float32)


def _added(edges: Tensor, weight: Tensor | None, n: int) -> tuple[Tensor, Tensor | None]:
    """Each edge once, in order, with the sum of its weights; None where these sums are all alike."""
    keys = edges[0] * n + edges[1]
    if weight is None:
        keys = torch.unique(keys, sorted=True)
        return torch.stack([keys // n, keys % n]), None
    # On the CPU and in double precision: the same bits on every device, and for a graph made of this one.
    keys, place = torch.unique(keys.cpu(), sorted=True, return_inverse=True)
    total = torch.zeros(len(keys), dtype=torch.float64).index_add_(0, place, weight)
    single = total.to(torch.float32)  # in which .1 + .2 is .3
    return torch.stack([keys // n, keys % n]), None if bool((single == single[:1]).all()) else total


def _checked_weights(weight: Any, n_edges: int) -> Tensor:
    """[e] float64 on the CPU."""
    values = torch.as_tensor(weight).detach().cpu().to(torch.float32)
    if values.shape != (n_edges,):
        raise UserError(f"There are {n_edges} edges, but the shape of their weights is {tuple(values.shape)}.")
    if not bool((torch.isfinite(values) & (values > 0)).all()):
        raise UserError("The weights of edges must be finite and above 0.")
    return values.to(torch.float64)


def as_text(ids: Any) -> np.ndarray:
    """Ids as an array of Python's strings; in one of numpy's all would be as long as the longest."""
    if isinstance(ids, np.ndarray) and ids.dtype.kind not in "OU":
        return ids.astype(str).astype(object)
    names = np.empty(len(ids), dtype=object)
    names[:] = [str(name) for name in ids]
    return names


def _checked_ids(ids: Any, n: int) -> np.ndarray:
    if ids is None:
        return np.arange(n)
    # NetworkX names may be tuples, which numpy would take for a table.
    given = np.asarray(ids) if hasattr(ids, "__array__") else list(ids) if isinstance(ids, Iterable) else None
    if given is None or (isinstance(given, np.ndarray) and given.ndim == 0):
        raise UserError(f"The ids must be a list, one for each node, not {ids!r}.")
    if isinstance(given, list) and all(isinstance(name, (int, np.integer)) for name in given):
        given = np.array(given)
    whole = isinstance(given, np.ndarray) and given.ndim == 1 and given.dtype.kind in "iu"
    names: np.ndarray = np.asarray(given) if whole else as_text(given)
    if names.shape != (n,):
        raise UserError(f"There are {n} nodes but {names.shape[0]} ids.")
    if len(np.unique(names)) != n:
        values, counts = np.unique(names, return_counts=True)
        raise UserError(f"The id {values[counts.argmax()]!r} is given to {counts.max()} nodes; ids must differ.")
    return names
