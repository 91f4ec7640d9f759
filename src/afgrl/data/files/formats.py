"""Files that hold a whole graph: .npz, GraphML, GEXF, a PyG Data; and arrays of features."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
import torch

from afgrl.data.dataset import Dataset
from afgrl.data.files.options import Options
from afgrl.data.files.read import MOST_UNPACKED, first_line, opened, size, suffix
from afgrl.data.files.tables import Fitted, graph_of_tables
from afgrl.data.npz import load_npz
from afgrl.errors import UserError

if TYPE_CHECKING:
    import networkx as nx

XML_SUFFIXES = (".graphml", ".gexf")
GRAPH_SUFFIXES = (".npz", ".pt", *XML_SUFFIXES)
WITHOUT_IDS = (".npz", ".pt")  # their nodes are numbered, which says nothing of the nodes of another file
SCIPY_PARTS = {"format", "shape", "data"}


def load_graph_file(path: Path, options: Options, fitted: Fitted = None) -> Dataset:
    if suffix(path) in XML_SUFFIXES:
        return _xml(path, options, fitted)
    return _pyg(path, options, fitted) if suffix(path) == ".pt" else _npz(path, options, fitted)


def load_features(path: Path) -> Any:
    """[n, f], from an array of numpy or a sparse matrix of scipy."""
    try:
        if suffix(path) == ".npy":
            features = np.load(path, allow_pickle=False)
        else:
            _check_size(path)
            features = sp.load_npz(path) if _names(path) >= SCIPY_PARTS else _only_array(path)
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(f"The file {path} holds no features, or it is damaged: {first_line(error)}.") from None
    if features.dtype.kind not in "iufb":
        raise UserError(f"The features in {path} must be numbers, but their type is {features.dtype}.")
    return features


def _npz(path: Path, options: Options, fitted: Fitted) -> Dataset:
    _check_size(path)
    if not _names(path) >= SCIPY_PARTS:
        return load_npz(path)
    try:
        matrix = sp.coo_array(sp.load_npz(path))
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(f"The file {path} holds no sparse matrix, or it is damaged: {first_line(error)}.") from None
    if matrix.shape[0] != matrix.shape[1]:
        raise UserError(f"The matrix in {path} must be square to be an adjacency, but its shape is {matrix.shape}.")
    edges = pa.table({"source": matrix.row, "target": matrix.col, "weight": matrix.data.astype(np.float64)})
    nodes = pa.table({"id": np.arange(matrix.shape[0])})
    if options.nodes:
        raise UserError("A matrix has no ids to match --nodes with; give the edges as a table.")
    told = Options(weight=options.weight)
    return graph_of_tables(nodes, edges, told, fitted=fitted, name=path.stem, where=(path.name, path.name))


def _names(path: Path) -> set[str]:
    """Of the arrays in a file."""
    if not zipfile.is_zipfile(path):
        raise UserError(f"The file {path} is no .npz file, or it is truncated.")
    with zipfile.ZipFile(path) as archive:
        return {Path(name).stem for name in archive.namelist()}


def _only_array(path: Path) -> np.ndarray:
    with np.load(path, allow_pickle=False) as arrays:
        tables = [name for name in arrays.files if arrays[name].ndim == 2]
        if len(tables) != 1:
            raise ValueError(f"it has {len(tables)} tables instead of one")
        return arrays[tables[0]]


def _check_size(path: Path) -> None:
    """Before anything is unpacked."""
    if not path.is_file():
        raise UserError(f"There is no file {path}.")
    if not zipfile.is_zipfile(path):
        return
    with zipfile.ZipFile(path) as archive:
        total = sum(entry.file_size for entry in archive.infolist())
    if total > MOST_UNPACKED:
        raise UserError(f"The file {path} unpacks to more than {size(MOST_UNPACKED)}, and is not read.")


def _xml(path: Path, options: Options, fitted: Fitted) -> Dataset:
    import networkx as nx

    with opened(path) as file:
        content = file.read()
    if re.search(rb"<!ENTITY", content[: 1 << 20], re.IGNORECASE):
        raise UserError(f"The file {path} declares XML entities, which may unpack without end, and is not read.")
    read = nx.read_graphml if suffix(path) == ".graphml" else nx.read_gexf
    try:
        graph = read(io.BytesIO(content))
    except Exception as error:  # the parsers raise their own, KeyError and ValueError among them
        raise UserError(f"The file {path} is damaged or no {suffix(path)[1:]}: {first_line(error)}.") from None
    if graph.number_of_nodes() == 0:
        raise UserError(f"The graph in {path} has no nodes.")
    nodes, edges = networkx_tables(graph)
    own = options if options.id else Options(**{**vars(options), "id": "id"})
    return graph_of_tables(nodes, edges, own, fitted=fitted, name=path.stem, where=(path.name, path.name))


def graph_of_network(graph: nx.Graph, weight: str, fitted: Fitted = None) -> Dataset:
    """Of a NetworkX graph whose nodes have attributes, or nothing, instead of a vector."""
    nodes, edges = networkx_tables(graph, weight)
    return graph_of_tables(nodes, edges, Options(id="id"), fitted=fitted, where=("the nodes", "the edges"))


def networkx_tables(graph: nx.Graph, weight: str = "weight") -> tuple[pa.Table, pa.Table]:
    """Nodes with their attributes as columns, and edges."""
    names = {name: str(name) for name in graph.nodes}
    attributes = list(dict.fromkeys(key for _, data in graph.nodes(data=True) for key in data if key != "id"))
    columns = {key: _column([data.get(key) for _, data in graph.nodes(data=True)]) for key in attributes}
    nodes = pa.table({"id": list(names.values()), **columns})
    ends = [(names[u], names[v], data.get(weight, 1)) for u, v, data in graph.edges(data=True)]
    source, target, weights = zip(*ends, strict=True) if ends else ((), (), ())
    weighted = any(value != 1 for value in weights)
    edges = {"source": pa.array(source, pa.string()), "target": pa.array(target, pa.string())}
    return nodes, pa.table(edges | ({"weight": _column(list(weights))} if weighted else {}))


def _column(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # of several kinds
        return pa.array([None if value is None else str(value) for value in values])


def _pyg_weights(stored: dict[str, Any], path: Path) -> dict[str, np.ndarray]:
    weight = stored.get("edge_weight")
    if not isinstance(weight, torch.Tensor):
        return {}
    if weight.numel() != stored["edge_index"].shape[1]:
        raise UserError(
            f"There are {stored['edge_index'].shape[1]:,} edges in {path}, but {weight.numel():,} weights of edges."
        )
    return {"weight": weight.reshape(-1).double().numpy()}


def _pyg(path: Path, options: Options, fitted: Fitted) -> Dataset:
    try:
        stored = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise UserError(f"There is no file {path}.") from None
    except Exception:  # whatever torch finds there besides tensors
        raise UserError(
            f"The file {path} is damaged or holds other things than tensors, which are not loaded; "
            "torch.save(data.to_dict(), FILE) saves tensors alone."
        ) from None
    if not isinstance(stored, dict) or not isinstance(stored.get("edge_index"), torch.Tensor):
        raise UserError(
            f"The file {path} holds no dictionary with 'edge_index', as torch.save(data.to_dict(), FILE) makes."
        )
    x, y = stored.get("x"), stored.get("y")
    edges = stored["edge_index"]
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.is_floating_point():
        raise UserError(f"The edges in {path} must be whole numbers of shape [2, e], not {tuple(edges.shape)}.")
    n = int(
        x.shape[0] if x is not None else max(int(edges.max()) + 1 if edges.numel() else 0, stored.get("num_nodes", 0))
    )
    if edges.numel() and not 0 <= int(edges.min()) <= int(edges.max()) < n:
        raise UserError(f"An edge in {path} names node {int(edges.max())}, but the nodes are 0 to {n - 1}.")
    columns: dict[str, Any] = {"id": np.arange(n)}
    if isinstance(y, torch.Tensor) and y.shape == (n,) and not y.is_floating_point():
        columns["label"] = pa.array(y.numpy(), mask=(y < 0).numpy())  # -1 is the usual word for none
    ends = pa.table({"source": edges[0].numpy(), "target": edges[1].numpy(), **_pyg_weights(stored, path)})
    features = None if x is None else (x.to_dense() if x.layout != torch.strided else x).numpy()
    own = Options(id="id", label=options.label or ("label" if "label" in columns else None), weight=options.weight)
    return graph_of_tables(
        pa.table(columns), ends, own, features=features, fitted=fitted, name=path.stem, where=(path.name, path.name)
    )
