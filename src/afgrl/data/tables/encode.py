"""The columns of a node table → features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self, get_args

import pyarrow as pa
import scipy.sparse as sp

from afgrl.data.ingest import IngestReport, first_few
from afgrl.data.tables.column_encoders import CategoryColumn, NumberColumn, TextColumn, VectorColumn
from afgrl.data.tables.numbers import PATTERNS
from afgrl.data.tables.structure import StructuralFeatures
from afgrl.data.tables.text_model import TextModelColumn
from afgrl.errors import UserError

Part = NumberColumn | VectorColumn | CategoryColumn | TextColumn | TextModelColumn
PARTS: dict[str, type[Part]] = {part.kind: part for part in get_args(Part)}


@dataclass(frozen=True)
class TableEncoder:
    """How each column of a node table becomes features."""

    parts: tuple[Part, ...]

    @classmethod
    def fit(
        cls, table: pa.Table, column_types: Mapping[str, str], report: IngestReport | None = None, where: str = "",
        *, text_model: str | None = None,
    ) -> Self:  # fmt: skip
        """``column_types``: vector, category, text or a number format for each column that is used. Words and
        categories of ``where`` that do not become features are added to ``report``. ``text_model`` is the folder of a
        model that embeds text."""
        report = IngestReport() if report is None else report
        return cls(
            tuple(
                _fit_part(name, table[name], column_type, report, where, text_model)
                for name, column_type in column_types.items()
            )
        )

    @property
    def columns(self) -> list[str]:
        return [part.name for part in self.parts]

    @property
    def names(self) -> list[str]:
        """The names of the features."""
        return [name for part in self.parts for name in part.names]

    def encode(self, table: pa.Table, report: IngestReport | None = None, where: str = "") -> sp.csr_array:
        """[rows, features] float32. Cells of ``where`` that cannot be read are added to ``report``."""
        blocks = list(self.blocks(table, report, where))
        return sp.csr_array(sp.hstack(blocks, format="csr")) if blocks else sp.csr_array((table.num_rows, 0))

    def blocks(self, table: pa.Table, report: IngestReport | None = None, where: str = "") -> Iterator[sp.csr_array]:
        """The features of each column."""
        present = set(table.column_names)
        missing = next((part.name for part in self.parts if part.name not in present), None)
        if missing is not None:
            raise UserError(
                f"The table has no column {missing!r}, which the model was trained with; its columns: "
                f"{first_few(table.column_names, 8)}."
            )
        for part in self.parts:
            column = table[part.name]
            yield part.encode(column, report, where) if isinstance(part, NumberColumn) else part.encode(column)

    def as_json(self) -> list[dict[str, Any]]:
        return [{"kind": part.kind, **asdict(part)} for part in self.parts]

    @classmethod
    def from_json(cls, parts: list[dict[str, Any]]) -> Self:
        return cls(tuple(PARTS[part["kind"]](**{k: v for k, v in part.items() if k != "kind"}) for part in parts))


def _fit_part(
    name: str, column: pa.ChunkedArray, column_type: str, report: IngestReport, where: str, text_model: str | None
) -> Part:
    if column_type in PATTERNS:
        return NumberColumn.fit(name, column, column_type)
    if column_type == VectorColumn.kind:
        return VectorColumn.fit(name, column)
    if column_type == CategoryColumn.kind:
        return CategoryColumn.fit(name, column, report, where)
    if text_model is not None:
        return TextModelColumn.fit_text(name, column, text_model, report, where)
    return TextColumn.fit(name, column, report, where)


@dataclass(frozen=True)
class TypedTableEncoder:
    """How the columns of several node tables become features: each node type has its own block of features."""

    kind: ClassVar[str] = "types"
    types: Mapping[str, TableEncoder]
    typed_ids: bool  # whether ids are written with their type, such as users:7
    structure: StructuralFeatures | None = None  # if no type has features

    @property
    def parts(self) -> tuple[Part | StructuralFeatures, ...]:
        own = tuple(part for encoder in self.types.values() for part in encoder.parts)
        return own if self.structure is None else (*own, self.structure)

    @property
    def names(self) -> list[str]:
        if self.structure is not None:
            return self.structure.names
        return [f"{node_type}.{name}" for node_type, encoder in self.types.items() for name in encoder.names]

    def as_json(self) -> list[dict[str, Any]]:
        types = [{"name": name, "columns": encoder.as_json()} for name, encoder in self.types.items()]
        structure = None if self.structure is None else self.structure.as_json()
        return [{"kind": self.kind, "typed_ids": self.typed_ids, "types": types, "structure": structure}]

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Self:
        types = {part["name"]: TableEncoder.from_json(part["columns"]) for part in stored["types"]}
        structure = StructuralFeatures.from_json(stored["structure"]) if stored["structure"] else None
        return cls(types, bool(stored["typed_ids"]), structure)


# How a model's features were made; None: they were given.
Fitted = TableEncoder | TypedTableEncoder | StructuralFeatures | None


def table_encoder_from_json(parts: list[dict[str, Any]]) -> TableEncoder | TypedTableEncoder | StructuralFeatures:
    """The inverse of ``as_json`` of the three classes."""
    kinds = [part["kind"] for part in parts]
    if kinds == [StructuralFeatures.kind]:
        return StructuralFeatures.from_json(parts)
    return TypedTableEncoder.from_json(parts[0]) if kinds == [TypedTableEncoder.kind] else TableEncoder.from_json(parts)
