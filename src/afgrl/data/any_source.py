"""Whatever a user passes as a graph → Dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Unpack

from afgrl.data.convert import as_graph, with_warnings
from afgrl.data.dataset import Dataset
from afgrl.data.objects import has_columns
from afgrl.data.read_keywords import ReadKeywords
from afgrl.data.sources import load
from afgrl.errors import UserError


def read_source(source: Any, data_dir: str | Path | None = None, /, **read: Unpack[ReadKeywords]) -> Dataset:
    """Whatever ``load`` reads or ``as_graph`` accepts. The options are for reading, so that other objects have none."""
    if isinstance(source, (str, Path)) or has_columns(source):
        return load(source, data_dir=data_dir, **read)
    if read:
        raise UserError(f"The options {', '.join(read)} are for files, tables, NetworkX and PyG.")
    return as_dataset(source)


def as_dataset(source: Any) -> Dataset:
    """What ``as_graph`` accepts, as a dataset; DataFrames, NetworkX graphs and PyG ``Data`` keep their columns, and a
    label column its labels."""
    if isinstance(source, Dataset):
        return source
    if has_columns(source):
        dataset = load(source)
        with_warnings(dataset)
        return dataset
    return Dataset("graph", as_graph(source))
