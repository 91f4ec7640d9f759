"""Columns of a table → features, fitted once, kept with the model and applied to new nodes as they were."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from afgrl.data.files.kinds import as_text, as_vectors
from afgrl.data.files.numbers import FORMS, Form, as_numbers, tell_unread
from afgrl.data.files.structure import Structure
from afgrl.data.notes import Notes
from afgrl.errors import UserError

MOSTLY_ZERO = 0.8  # counts and indicators: to center them would fill the table
VAST = 1e100  # the square of larger numbers is infinite
MOST_CATEGORIES = 100
MOST_WORDS = 2000
TEXT: dict[str, Any] = {"lowercase": True, "sublinear_tf": True, "token_pattern": r"(?u)\b\w\w+\b", "dtype": np.float32}


@dataclass(frozen=True)
class Number:
    """Standardized; counts and indicators that are mostly 0 are only divided by their largest value. A missing number
    becomes the mean, and a column of its own says so where the fitted table lacked some."""

    kind: ClassVar[str] = "number"
    name: str
    mean: float
    scale: float
    lacking: bool
    form: Form = "number"

    @classmethod
    def fit(cls, name: str, column: pa.ChunkedArray, form: Form = "number") -> Self:
        values = as_numbers(column, form)
        known = values[np.isfinite(values)]
        if not len(known):
            known = np.zeros(1)
        lacking = len(known) < len(values)
        if known.min() >= 0 and (known == 0).mean() >= MOSTLY_ZERO:
            return cls(name, 0.0, float(known.max()) or 1.0, lacking, form)
        unit = float(np.abs(known).max()) if np.abs(known).max() > VAST else 1.0
        scaler = StandardScaler().fit(known[:, None] / unit)
        return cls(name, float(scaler.mean_[0]) * unit, float(scaler.scale_[0]) * unit, lacking, form)

    @property
    def names(self) -> list[str]:
        return [self.name, f"{self.name} is missing"] if self.lacking else [self.name]

    def encode(self, column: pa.ChunkedArray, notes: Notes | None = None, where: str = "") -> sp.csr_array:
        values = as_numbers(column, self.form)
        unknown = ~np.isfinite(values)
        if notes is not None and unknown.any():
            tell_unread(self.name, column, self.form, values, notes, where)
        with np.errstate(over="ignore"):
            scaled = np.where(unknown, 0, (values - self.mean) / self.scale).astype(np.float32)
        columns = [scaled, unknown.astype(np.float32)] if self.lacking else [scaled]
        return sp.csr_array(np.stack(columns, axis=1))


@dataclass(frozen=True)
class Vector:
    """A column whose cells are lists of one length, each place standardized."""

    kind: ClassVar[str] = "vector"
    name: str
    mean: list[float]
    scale: list[float]

    @classmethod
    def fit(cls, name: str, column: pa.ChunkedArray) -> Self:
        scaler = StandardScaler().fit(as_vectors(column))
        return cls(name, scaler.mean_.tolist(), scaler.scale_.tolist())

    @property
    def names(self) -> list[str]:
        return [f"{self.name}[{i}]" for i in range(len(self.mean))]

    def encode(self, column: pa.ChunkedArray) -> sp.csr_array:
        values = as_vectors(column)
        if values.shape[1] != len(self.mean):
            raise UserError(
                f"The lists of column {self.name!r} have {values.shape[1]} numbers, but those of the training had "
                f"{len(self.mean)}."
            )
        scaled = (values - np.array(self.mean)) / np.array(self.scale)
        return sp.csr_array(np.nan_to_num(scaled).astype(np.float32))


@dataclass(frozen=True)
class Category:
    """One column for each of the most frequent values; other and missing values have none."""

    kind: ClassVar[str] = "category"
    name: str
    values: list[str]

    @classmethod
    def fit(cls, name: str, column: pa.ChunkedArray) -> Self:
        values, counts = np.unique(as_text(column).drop_null().to_numpy(zero_copy_only=False), return_counts=True)
        frequent = values[np.lexsort((values, -counts))[:MOST_CATEGORIES]]
        return cls(name, sorted(frequent.tolist()))

    @property
    def names(self) -> list[str]:
        return [f"{self.name}={value}" for value in self.values]

    def encode(self, column: pa.ChunkedArray) -> sp.csr_array:
        cells = as_text(column).fill_null("").to_numpy(zero_copy_only=False).astype(object)
        encoder = OneHotEncoder(
            categories=[np.array(self.values, dtype=object)], handle_unknown="ignore", dtype=np.float32
        )
        encoder.fit(np.array(self.values, dtype=object)[:, None])
        return sp.csr_array(encoder.transform(cells[:, None]))


@dataclass(frozen=True)
class Text:
    """TF-IDF of the most frequent words that at least two rows have."""

    kind: ClassVar[str] = "text"
    name: str
    words: list[str]
    idf: list[float]

    @classmethod
    def fit(cls, name: str, column: pa.ChunkedArray) -> Self:
        cells = as_text(column).fill_null("").to_pylist()
        vectorizer = TfidfVectorizer(max_features=MOST_WORDS, min_df=2 if len(cells) > 50 else 1, **TEXT)
        try:
            vectorizer.fit(cells)
        except ValueError:  # no words at all
            return cls(name, [], [])
        return cls(name, vectorizer.get_feature_names_out().tolist(), vectorizer.idf_.tolist())

    @property
    def names(self) -> list[str]:
        return [f"{self.name}: {word}" for word in self.words]

    def encode(self, column: pa.ChunkedArray) -> sp.csr_array:
        cells = as_text(column).fill_null("").to_pylist()
        if not self.words:
            return sp.csr_array(np.zeros((len(cells), 0), dtype=np.float32))
        vectorizer = TfidfVectorizer(vocabulary=self.words, **TEXT)
        vectorizer.idf_ = np.array(self.idf, dtype=np.float32)
        return sp.csr_array(vectorizer.transform(cells).tocsr())


Part = Number | Vector | Category | Text
PARTS: dict[str, type[Part]] = {part.kind: part for part in (Number, Vector, Category, Text)}


@dataclass(frozen=True)
class Encoder:
    """How each column became features."""

    parts: tuple[Part, ...]

    @classmethod
    def fit(cls, table: pa.Table, kinds: Mapping[str, str]) -> Self:
        """``kinds``: number, date, truth, vector, category or text for each column that is used."""
        return cls(
            tuple(
                Number.fit(name, table[name], kind) if kind in FORMS else PARTS[kind].fit(name, table[name])
                for name, kind in kinds.items()
            )
        )

    @property
    def columns(self) -> list[str]:
        return [part.name for part in self.parts]

    @property
    def names(self) -> list[str]:
        """Of the features."""
        return [name for part in self.parts for name in part.names]

    def encode(self, table: pa.Table, notes: Notes | None = None, where: str = "") -> sp.csr_array:
        """[rows, features] float32; ``notes`` are told which cells of ``where`` could not be read."""
        there = set(table.column_names)
        lacking = [part.name for part in self.parts if part.name not in there]
        if lacking:
            raise UserError(
                f"The table lacks the column {lacking[0]!r} that the training had; it has "
                f"{', '.join(map(repr, table.column_names[:8]))}."
            )
        blocks = [
            part.encode(table[part.name], notes, where) if isinstance(part, Number) else part.encode(table[part.name])
            for part in self.parts
        ]
        return sp.csr_array(sp.hstack(blocks, format="csr")) if blocks else sp.csr_array((table.num_rows, 0))

    def as_json(self) -> list[dict[str, Any]]:
        return [{"kind": part.kind, **asdict(part)} for part in self.parts]

    @classmethod
    def from_json(cls, parts: list[dict[str, Any]]) -> Self:
        return cls(tuple(PARTS[part["kind"]](**{k: v for k, v in part.items() if k != "kind"}) for part in parts))


def fitted_from_json(parts: list[dict[str, Any]]) -> Encoder | Structure:
    """What ``as_json`` of either gave."""
    if [part["kind"] for part in parts] == [Structure.kind]:
        return Structure(parts[0]["mean"], parts[0]["scale"])
    return Encoder.from_json(parts)
