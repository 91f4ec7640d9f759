"""One column → features. Each class is fitted once, stored as JSON with the model, and applied to new nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from afgrl.data.ingest import IngestReport
from afgrl.data.tables.cells import to_text, to_vectors
from afgrl.data.tables.numbers import NumberFormat, report_unread_cells, to_numbers
from afgrl.errors import UserError

MOSTLY_ZERO = 0.8  # share of zeros from which a column is not centered, so that it stays sparse
HUGE = 1e100  # squares of larger numbers overflow
MAX_CATEGORIES = 100
MAX_WORDS = 2000
MANY_ROWS = 50  # in longer tables, a word must occur in two rows
TFIDF: dict[str, Any] = {
    "lowercase": True,
    "sublinear_tf": True,
    "token_pattern": r"(?u)\b\w\w+\b",
    "dtype": np.float32,
}


@dataclass(frozen=True)
class NumberColumn:
    """A standardized number. Counts and indicators that are mostly 0 are divided by their maximum instead.

    A missing number becomes 0, the mean of a standardized column; if the fitted column had missing numbers, a second
    feature indicates them.
    """

    kind: ClassVar[str] = "number"
    name: str
    mean: float
    scale: float
    indicates_missing: bool
    number_format: NumberFormat = "number"

    @classmethod
    def fit(cls, name: str, column: pa.ChunkedArray, number_format: NumberFormat = "number") -> Self:
        values = to_numbers(column, number_format)
        known = values[np.isfinite(values)]
        if not len(known):
            known = np.zeros(1)
        has_missing = len(known) < len(values)
        if known.min() >= 0 and (known == 0).mean() >= MOSTLY_ZERO:
            return cls(name, 0.0, float(known.max()) or 1.0, has_missing, number_format)
        unit = float(np.abs(known).max()) if np.abs(known).max() > HUGE else 1.0
        scaler = StandardScaler().fit(known[:, None] / unit)
        return cls(name, float(scaler.mean_[0]) * unit, float(scaler.scale_[0]) * unit, has_missing, number_format)

    @property
    def names(self) -> list[str]:
        return [self.name, f"{self.name} is missing"] if self.indicates_missing else [self.name]

    def encode(self, column: pa.ChunkedArray, report: IngestReport | None = None, where: str = "") -> sp.csr_array:
        values = to_numbers(column, self.number_format)
        missing = ~np.isfinite(values)
        if report is not None and missing.any():
            report_unread_cells(self.name, column, self.number_format, values, report, where)
        with np.errstate(over="ignore"):
            scaled = np.where(missing, 0, (values - self.mean) / self.scale).astype(np.float32)
        columns = [scaled, missing.astype(np.float32)] if self.indicates_missing else [scaled]
        return sp.csr_array(np.stack(columns, axis=1))


@dataclass(frozen=True)
class VectorColumn:
    """Lists of numbers of the same length; each position is standardized."""

    kind: ClassVar[str] = "vector"
    name: str
    mean: list[float]
    scale: list[float]

    @classmethod
    def fit(cls, name: str, column: pa.ChunkedArray) -> Self:
        return cls(name, *cls.moments(to_vectors(column, name)))

    @staticmethod
    def moments(values: np.ndarray) -> tuple[list[float], list[float]]:
        """Mean and standard deviation of each position; NaN does not count."""
        scaler = StandardScaler().fit(values)
        return scaler.mean_.tolist(), scaler.scale_.tolist()

    @property
    def names(self) -> list[str]:
        return [f"{self.name}[{i}]" for i in range(len(self.mean))]

    def encode(self, column: pa.ChunkedArray) -> sp.csr_array:
        values = to_vectors(column, self.name)
        if values.shape[1] != len(self.mean):
            raise UserError(
                f"The lists in column {self.name!r} have {values.shape[1]} numbers, but the model was trained with "
                f"{len(self.mean)}."
            )
        return self.standardized(values)

    def standardized(self, values: np.ndarray) -> sp.csr_array:
        scaled = (values - np.array(self.mean)) / np.array(self.scale)
        return sp.csr_array(np.nan_to_num(scaled).astype(np.float32))


@dataclass(frozen=True)
class CategoryColumn:
    """One-hot encoding of the most frequent values; other and missing values are all zeros."""

    kind: ClassVar[str] = "category"
    name: str
    values: list[str]

    @classmethod
    def fit(cls, name: str, column: pa.ChunkedArray, report: IngestReport, where: str) -> Self:
        values, counts = np.unique(to_text(column).drop_null().to_numpy(zero_copy_only=False), return_counts=True)
        order = np.lexsort((values, -counts))
        if len(values) > MAX_CATEGORIES:
            n_rows = counts[order[MAX_CATEGORIES:]].sum()
            report.warning(
                f"Column {name!r} of {where} has {len(values):,} different values: the {MAX_CATEGORIES} most frequent "
                f"are features, and the other {len(values) - MAX_CATEGORIES:,}, in {n_rows:,} of {len(column):,} rows, "
                "are not."
            )
        return cls(name, sorted(values[order[:MAX_CATEGORIES]].tolist()))

    @property
    def names(self) -> list[str]:
        return [f"{self.name}={value}" for value in self.values]

    def encode(self, column: pa.ChunkedArray) -> sp.csr_array:
        cells = to_text(column).fill_null("").to_numpy(zero_copy_only=False).astype(object)
        values = np.array(self.values, dtype=object)
        one_hot = OneHotEncoder(categories=[values], handle_unknown="ignore", dtype=np.float32).fit(values[:, None])
        return sp.csr_array(one_hot.transform(cells[:, None]))


@dataclass(frozen=True)
class TextColumn:
    """TF-IDF of the most frequent words; in tables of more than 50 rows, of those that at least two rows contain."""

    kind: ClassVar[str] = "text"
    name: str
    words: list[str]
    idf: list[float]

    @classmethod
    def fit(cls, name: str, column: pa.ChunkedArray, report: IngestReport, where: str) -> Self:
        cells = to_text(column).fill_null("").to_pylist()
        found: set[str] = set()
        split = TfidfVectorizer(**TFIDF).build_analyzer()

        def words_of(cell: str) -> list[str]:
            words: list[str] = split(cell)
            found.update(words)
            return words

        min_rows = 2 if len(cells) > MANY_ROWS else 1
        vectorizer = TfidfVectorizer(max_features=MAX_WORDS, min_df=min_rows, analyzer=words_of, **TFIDF)
        try:
            vectorizer.fit(cells)
        except ValueError:  # no words
            report.warning(f"No words of the text column {name!r} of {where} become features.")
            return cls(name, [], [])
        words = vectorizer.get_feature_names_out().tolist()
        rule = ", the most frequent ones" if len(words) == MAX_WORDS else ", those in two rows or more"
        report.info(
            f"Words of the text column {name!r} of {where} that become features: {len(words):,} of {len(found):,}"
            f"{rule if len(words) < len(found) else ''}."
        )
        return cls(name, words, vectorizer.idf_.tolist())

    @property
    def names(self) -> list[str]:
        return [f"{self.name}: {word}" for word in self.words]

    def encode(self, column: pa.ChunkedArray) -> sp.csr_array:
        cells = to_text(column).fill_null("").to_pylist()
        if not self.words:
            return sp.csr_array(np.zeros((len(cells), 0), dtype=np.float32))
        vectorizer = TfidfVectorizer(vocabulary=self.words, **TFIDF)
        vectorizer.idf_ = np.array(self.idf, dtype=np.float32)
        return sp.csr_array(vectorizer.transform(cells).tocsr())
