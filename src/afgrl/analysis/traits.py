"""What is known about nodes in the user's own terms: cells of their tables, not the features made from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
import torch
from torch import Tensor

from afgrl.amounts import are_years
from afgrl.analysis.dates import date_traits, is_date_column
from afgrl.csr import csr_to_scipy
from afgrl.data.dataset import Dataset
from afgrl.data.tables.column_encoders import CategoryColumn, NumberColumn, TextColumn
from afgrl.data.tables.encode import Part, TableEncoder
from afgrl.data.tables.numbers import to_numbers
from afgrl.data.tables.structure import StructuralFeatures
from afgrl.errors import UserError

FEW_VALUES = {0.0, 1.0}  # a column of these only is a yes or no
BLOCK_ROWS = 4096
LISTED_KINDS = ("word", "feature")

Kind = Literal["number", "year", "category", "date", "word", "feature"]


@dataclass(frozen=True)
class Trait:
    """One thing to say about a node: a number it has, or something that is true or false for it."""

    kind: Kind  # numbers and years are measured; the others are true or false
    column: str
    value: str = ""  # the category, the word, or "after 2015"

    @property
    def name(self) -> str:
        """As in the heading of a row."""
        if self.kind == "category":
            return f"{self.column}: {self.value}"
        if self.kind == "word":
            return f"{self.column}: “{self.value}”"
        return f"{self.column} {self.value}" if self.value else self.column


class Traits(NamedTuple):
    """The traits of all nodes: first the ``a`` measured ones, then the ``b`` that are true or false."""

    numbers: np.ndarray  # [n, a] float; NaN is a missing value
    truths: sp.csr_array  # [n, b] with a 1 where a node has the trait
    traits: tuple[Trait, ...]  # a + b


def traits_of(dataset: Dataset) -> Traits:
    """From the columns of the user's tables; if the features were given as an array, from the features."""
    graph, ingested = dataset.graph, dataset.ingested
    encoder, blocks = graph.table_encoder, []
    if isinstance(encoder, TableEncoder) and ingested is not None:
        present = set(ingested.columns.column_names)
        blocks = [_column_traits(part, ingested.columns[part.name]) for part in encoder.parts if part.name in present]
    elif encoder is None:
        blocks = [given_traits(graph.x)]
    blocks += [_label_traits(dataset)] if dataset.y is not None else []
    if isinstance(encoder, StructuralFeatures) and graph.edge_index.shape[1]:
        degree = np.bincount(graph.edge_index.cpu().numpy().reshape(-1), minlength=graph.n) / (
            1 if graph.directed else 2
        )
        blocks.append(_measured("edges per node", degree))
    return _joined([block for block in blocks if block.traits], graph.n)


def listed_traits(dataset: Dataset) -> tuple[sp.csr_array, list[str]]:
    """The words or features of the nodes, [n, b] with an entry where a node has one, and their names. Categories, dates
    and numbers are shown as columns."""
    found = traits_of(dataset)
    described = found.traits[found.numbers.shape[1] :]
    columns = [j for j, trait in enumerate(described) if trait.kind in LISTED_KINDS]
    return sp.csr_array(found.truths[:, columns]), [described[j].name for j in columns]


def given_traits(x: Tensor, names: Sequence[str] | None = None) -> Traits:
    """Features that were given as an array. Of a sparse or binary one, the traits are the features that are not 0."""
    if names is not None and len(names) != x.shape[1]:
        raise UserError(f"There are {x.shape[1]} features, but {len(names)} names of features.")
    known = names if names is not None else [f"feature {j}" for j in range(x.shape[1])]
    if x.layout == torch.sparse_csr:
        return _true_or_false(csr_to_scipy(x), [Trait("feature", name) for name in known])
    rows = x.cpu().numpy()
    if all(bool(((block == 0) | (block == 1)).all()) for block in row_blocks(rows)):
        return _true_or_false(sp.csr_array(rows), [Trait("feature", name) for name in known])
    return Traits(rows, sp.csr_array((len(rows), 0)), tuple(Trait("number", name) for name in known))


def row_blocks(rows: np.ndarray) -> Iterator[np.ndarray]:
    return (rows[start : start + BLOCK_ROWS] for start in range(0, len(rows), BLOCK_ROWS))


def _column_traits(part: Part, column: pa.ChunkedArray) -> Traits:
    if isinstance(part, CategoryColumn):
        return _true_or_false(part.encode(column), [Trait("category", part.name, value) for value in part.values])
    if isinstance(part, TextColumn):
        return _true_or_false(part.encode(column), [Trait("word", part.name, word) for word in part.words])
    if isinstance(part, NumberColumn):
        return _number_traits(part, column)
    return _joined([], len(column))  # the positions of a vector have no meaning that can be named


def _number_traits(part: NumberColumn, column: pa.ChunkedArray) -> Traits:
    values = to_numbers(column, part.number_format)
    if is_date_column(column, part.number_format):
        columns, choices = date_traits(values)
        return _true_or_false(columns, [Trait("date", part.name, choice) for choice in choices])
    known = values[np.isfinite(values)]
    if set(np.unique(known[:BLOCK_ROWS])) <= FEW_VALUES and set(np.unique(known)) <= FEW_VALUES:
        named = ["no", "yes"] if part.number_format == "boolean" or pa.types.is_boolean(column.type) else ["0", "1"]
        truths = sp.csr_array(np.stack([values == 0, values == 1], axis=1).astype(np.float32))
        return _true_or_false(truths, [Trait("category", part.name, value) for value in named])
    return _measured(part.name, values)


def _measured(name: str, values: np.ndarray) -> Traits:
    known = values[np.isfinite(values)]
    whole = len(known) > 0 and bool((known == np.rint(known)).all())
    is_year = whole and are_years(known.min(), known.max()) and known.max() > known.min()
    trait = Trait("year" if is_year else "number", name)
    return Traits(values[:, None], sp.csr_array((len(values), 0)), (trait,))


def _label_traits(dataset: Dataset) -> Traits:
    y, ingested = dataset.y, dataset.ingested
    assert y is not None
    name = ingested.label if ingested is not None and ingested.label else "label"
    classes = (ingested.classes if ingested is not None else None) or [
        str(number) for number in range(dataset.n_classes)
    ]
    known = np.flatnonzero(y >= 0)
    truths = sp.csr_array((np.ones(len(known), np.float32), (known, y[known])), shape=(len(y), dataset.n_classes))
    return _true_or_false(truths, [Trait("category", name, value) for value in classes])


def _true_or_false(columns: sp.csr_array, traits: Sequence[Trait]) -> Traits:
    truths = sp.csr_array(columns)
    truths.eliminate_zeros()
    truths.data = np.ones_like(truths.data)
    return Traits(np.zeros((truths.shape[0], 0)), truths, tuple(traits))


def _joined(blocks: Sequence[Traits], n: int) -> Traits:
    if not blocks:
        return Traits(np.zeros((n, 0)), sp.csr_array((n, 0)), ())
    measured = [block.numbers for block in blocks if block.numbers.shape[1]]
    numbers = np.concatenate(measured, axis=1) if len(measured) > 1 else measured[0] if measured else np.zeros((n, 0))
    truths = sp.csr_array(sp.hstack([block.truths for block in blocks], format="csr"))
    first = [trait for block in blocks for trait in block.traits[: block.numbers.shape[1]]]
    return Traits(
        numbers, truths, (*first, *(trait for block in blocks for trait in block.traits[block.numbers.shape[1] :]))
    )
