"""The columns of all nodes as filters, legends and samples need them: numbers, or codes of the most frequent values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from afgrl.report.arrays import Json, as_strings, column_numbers, shortened, value_order

MAX_VALUES = 1000  # of a column that can be chosen in a filter, the most frequent ones
QUANTILES = (0.01, 0.99)  # the ends of the color scale, as in colors.js


@dataclass(frozen=True, eq=False)
class ColumnIndex:
    """One column of all nodes."""

    numbers: np.ndarray | None  # [n] NaN: no value; None for a column of categories
    codes: np.ndarray | None  # [n] uint16: a position in ``values``, then one for rarer values, then one for no value
    values: list[str]
    sizes: list[int]  # nodes with each of the values, then with a rarer one, then without a value
    n_rarer: int  # how many other values there are

    @classmethod
    def of(cls, column: pa.ChunkedArray, *, category: bool) -> ColumnIndex:
        if not category and (found := column_numbers(column)) is not None:
            return cls(found[0], None, [], [], 0)
        encoded = _encoded(column)
        texts = as_strings(pa.chunked_array([encoded.dictionary])).to_pylist()
        place = encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
        sizes = np.bincount(place, minlength=len(texts) + 1)
        order = value_order(texts, sizes)[:MAX_VALUES]
        code_of = np.full(len(texts) + 1, len(order), np.uint16)
        code_of[order] = np.arange(len(order))
        code_of[len(texts)] = len(order) + 1
        codes = code_of[place]
        counted = np.bincount(codes, minlength=len(order) + 2).tolist()
        return cls(None, codes, [shortened(texts[i]) for i in order], counted, len(texts) - len(order))

    def summary(self) -> Json:
        """What the page needs to know about all nodes."""
        if self.numbers is None:
            *sizes, _, n_missing = self.sizes
            return {"values": self.values, "sizes": sizes, "rarer": self.n_rarer, "missing": n_missing}
        present = self.numbers[~np.isnan(self.numbers)].astype(np.float64)
        if not len(present):
            return {"min": None, "max": None, "low": None, "high": None}
        low, high = np.quantile(present, QUANTILES, method="nearest").tolist()
        return {"min": float(present.min()), "max": float(present.max()), "low": low, "high": high}

    def accepts(self, low: float | None, high: float | None, codes: Sequence[int] | None) -> np.ndarray:
        """Which nodes have a number in the range, or one of the codes, [n] bool. No range contains a missing number."""
        if self.codes is not None:
            table = np.zeros(len(self.sizes), bool)
            table[[code for code in codes or () if code < len(table)]] = True
            chosen: np.ndarray = table[self.codes]
            return chosen
        assert self.numbers is not None
        inside: np.ndarray = ~np.isnan(self.numbers)
        if low is not None:
            inside &= self.numbers >= low
        if high is not None:
            inside &= self.numbers <= high
        return inside


def _encoded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    if pa.types.is_null(column.type):
        column = column.cast(pa.string())
    try:
        joined = column.combine_chunks()
        encoded = joined if pa.types.is_dictionary(column.type) else joined.dictionary_encode()
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):  # lists have no dictionary
        encoded = as_strings(column).combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries().combine_chunks()
    return encoded
