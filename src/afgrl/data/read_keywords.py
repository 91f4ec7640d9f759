"""The options for reading files as keyword arguments, under the names that ``from_pandas`` uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypedDict

from afgrl.data.tables.options import ReadOptions


class ReadKeywords(TypedDict, total=False):
    """The fields of ``ReadOptions``, which explains them; ``columns`` may be a dictionary of names and types."""

    id: str | None
    source: str | None
    target: str | None
    label: str | None
    weight: str | None
    nodes: str | None
    columns: Mapping[str, str] | tuple[str, ...]
    knn_graph: int | None
    encoding: str | None


def with_keywords(options: ReadOptions, given: Mapping[str, Any]) -> ReadOptions:
    """The options with those replaced that are given by name."""
    values = dict(given)
    if isinstance(values.get("columns"), Mapping):
        values["columns"] = tuple(f"{name}={column_type}" for name, column_type in values["columns"].items())
    return replace(options, **values)
