"""Objects in memory that hold a graph with columns of its nodes → Dataset: DataFrames, NetworkX, PyG."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from afgrl.data.convert import graph_of_pyg, graph_of_vectors
from afgrl.data.dataset import Dataset
from afgrl.data.formats.pyg_files import pyg_columns, pyg_label
from afgrl.data.frames import are_frames, load_frames
from afgrl.data.ingest import IngestReport
from afgrl.data.networkx_tables import dataset_from_networkx, node_attributes
from afgrl.data.node_arrays import dataset_with_columns
from afgrl.data.tables.column_names import NO_COLUMN
from afgrl.data.tables.options import ReadOptions
from afgrl.errors import UserError

if TYPE_CHECKING:
    import networkx as nx
    from torch_geometric.data import Data

VECTORS = "x"  # the node attribute of a NetworkX graph that holds features


def has_columns(source: Any) -> bool:
    """Whether ``load_object`` reads this object."""
    pair = isinstance(source, (tuple, list)) and len(source) == 2
    return are_frames(source if pair else (source,)) or is_networkx(source) or is_pyg(source)


def load_object(source: Any, options: ReadOptions) -> Dataset:
    """DataFrames, a NetworkX graph or a PyG ``Data``, read like files of the same content."""
    if not (is_networkx(source) or is_pyg(source)):
        return load_frames(source, options)
    for name in ("nodes", "header", "encoding", "knn_graph"):
        if getattr(options, name) is not None:
            raise UserError(f"The option {name} is for files and tables, not for an object that is a graph.")
    return _load_networkx(source, options) if is_networkx(source) else _load_pyg(source, options)


def is_networkx(source: Any) -> bool:
    return hasattr(source, "adj") and hasattr(source, "nodes") and hasattr(source, "number_of_nodes")


def is_pyg(source: Any) -> bool:
    return hasattr(source, "edge_index") and hasattr(source, "x") and hasattr(source, "to_dict")


def _load_networkx(network: nx.Graph, options: ReadOptions) -> Dataset:
    """Attributes are features and columns; beside vectors in ``x`` they are columns only."""
    weight = options.weight or "weight"
    has_vectors = any(VECTORS in attributes for _, attributes in network.nodes(data=True))
    if network.number_of_nodes() and not has_vectors:
        return dataset_from_networkx(network, weight, options=replace(options, weight=None))
    report = IngestReport()
    graph, columns = graph_of_vectors(network, VECTORS, weight, report), node_attributes(network, VECTORS)
    return dataset_with_columns(graph, columns, options, report, name="graph", where="the nodes")


def _load_pyg(data: Data, options: ReadOptions) -> Dataset:
    report = IngestReport()
    graph = graph_of_pyg(data, report, weighted=options.weight != NO_COLUMN)
    label, columns = pyg_columns(data.to_dict(), graph.n, report, "the PyG Data")
    own = replace(options, label=options.label or pyg_label(label, columns))
    return dataset_with_columns(graph, label | columns, own, report, name="graph", where="the PyG Data")
