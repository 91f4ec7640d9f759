"""The options for reading files as keyword arguments, under the names that ``from_pandas`` uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypedDict

from afgrl.data.tables.options import ReadOptions, column_assignments


class ReadKeywords(TypedDict, total=False):
    """The fields of ``ReadOptions``, which explains them; ``columns`` may be a dictionary of names and types."""

    id: str | None
    name: str | None
    source: str | None
    target: str | None
    label: str | None
    weight: str | None
    nodes: str | None
    columns: Mapping[str, str] | tuple[str, ...]
    text_model: str | None
    knn_graph: int | None
    header: Literal["yes", "no"] | None
    encoding: str | None
    na_values: str | Sequence[str]
    keep_default_na: bool


def with_keywords(options: ReadOptions, given: Mapping[str, Any]) -> ReadOptions:
    """The options with those replaced that are given by name."""
    values = dict(given)
    if isinstance(values.get("columns"), Mapping):
        values["columns"] = column_assignments(values["columns"])
    words = values.get("na_values", ())
    values["na_values"] = (*options.na_values, *([words] if isinstance(words, str) else words))
    return replace(options, **values)
