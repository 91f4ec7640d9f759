"""A file that contains a whole graph → Dataset."""

from __future__ import annotations

from pathlib import Path

from afgrl.data.dataset import Dataset
from afgrl.data.formats.networkx_files import NETWORKX_SUFFIXES, load_networkx_file
from afgrl.data.formats.npz import load_npz
from afgrl.data.formats.pyg_files import load_pyg_file
from afgrl.data.tables.encode import Fitted
from afgrl.data.tables.options import ReadOptions
from afgrl.data.unpacking import file_suffix

WITHOUT_IDS = (".npz", ".pt")  # their nodes are numbers, which do not identify nodes of another file
GRAPH_SUFFIXES = (*WITHOUT_IDS, *NETWORKX_SUFFIXES)


def load_graph_file(path: Path, options: ReadOptions, fitted: Fitted = None) -> Dataset:
    if file_suffix(path) in NETWORKX_SUFFIXES:
        return load_networkx_file(path, options, fitted)
    return load_pyg_file(path, options, fitted) if file_suffix(path) == ".pt" else load_npz(path, options, fitted)
