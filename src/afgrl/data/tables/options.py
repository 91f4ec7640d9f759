"""How to read a user's files."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from afgrl.errors import UserError, unknown

ColumnType = Literal["number", "category", "text", "ignore"]


@dataclass(frozen=True)
class ReadOptions:
    """How to read a user's files. An option that is None is inferred, and the ingest report says the result."""

    id: str | None = None  # node table: the column of node ids; "none": row numbers are the ids
    name: str | None = None  # node table: the column of names shown beside the ids; "none": no names
    source: str | None = None  # edge table: the column of source nodes
    target: str | None = None  # edge table: the column of target nodes
    label: str | None = None  # node table: the label column, which training does not use; "none": no label
    weight: str | None = None  # edge table: the column of edge weights; "none": no weights
    nodes: str | None = None  # path of the node table if SOURCE is the edge table
    columns: tuple[str, ...] = ()  # node table: types of columns, such as "zip=category"
    text_model: str | None = None  # folder of a sentence-transformers model that embeds text columns
    knn_graph: int | None = None  # for sources without edges: link each node to this many nearest neighbors
    header: Literal["yes", "no"] | None = None  # of a text file of edges, or of the only table: whether it has one
    encoding: str | None = None  # of text files; by default that of the byte order mark, or utf-8
    na_values: tuple[str, ...] = ()  # more words that mean a missing value, as in pandas
    keep_default_na: bool = True  # whether NA, NULL and the like mean a missing value, as in pandas

    def __post_init__(self) -> None:
        if self.header not in (None, "yes", "no"):
            raise unknown("header", self.header, ("yes", "no"))

    @property
    def given(self) -> dict[str, Any]:
        """The options that differ from their defaults."""
        values = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        return {name: value for name, (value, default) in values.items() if value != default}

    def of_table(self, names: Collection[str], node_type: str) -> ReadOptions:
        """The options for one of several node tables: without columns that it does not have, and without the type in
        names such as users.zip."""
        own = {name: name for name in names} | {f"{node_type}.{name}": name for name in names}
        given = self.column_types.items()
        return replace(self, columns=tuple(f"{own[name]}={kind}" for name, kind in given if name in own))

    @property
    def column_types(self) -> dict[str, ColumnType]:
        """The types given in ``columns``, by column name."""
        types: dict[str, ColumnType] = {}
        for text in self.columns:
            name, equals, column_type = text.rpartition("=")
            if not equals or not name:
                raise UserError(f"--column takes name=type, for example zip=category, not {text!r}.")
            if column_type not in get_args(ColumnType):
                raise unknown("column type", column_type, get_args(ColumnType))
            types[name] = column_type  # type: ignore[assignment]
        return types


def column_assignments(columns: Mapping[str, str] | None) -> tuple[str, ...]:
    """``{"zip": "category"}`` as ``ReadOptions.columns`` has it."""
    return tuple(f"{name}={column_type}" for name, column_type in (columns or {}).items())
