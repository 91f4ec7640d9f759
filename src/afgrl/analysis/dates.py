"""Dates as things that are true or false: before a year, after a year, or a month if all dates are within two years."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from afgrl.data.tables.cells import is_date_type

N_LIMITS = 9  # the deciles of the dates
SHORT = 2 * 365.25 * 86_400.0  # seconds


def is_date_column(column: pa.ChunkedArray, number_format: str) -> bool:
    return number_format == "date" or is_date_type(column.type)


def date_traits(seconds: np.ndarray) -> tuple[sp.csr_array, list[str]]:
    """[n, b] and what each column says. ``seconds`` [n] are since 1970; NaN is a missing date."""
    known = np.sort(seconds[np.isfinite(seconds)])
    if not len(known) or known[0] == known[-1]:
        return sp.csr_array((len(seconds), 0)), []
    unit, written = ("M", "%B %Y") if known[-1] - known[0] < SHORT else ("Y", "%Y")
    periods = _periods(seconds, unit)
    limits = np.unique(_periods(known[np.linspace(0, len(known) - 1, N_LIMITS + 2).astype(int)], unit))
    columns, says = [], []
    for limit in limits:
        name = _name(int(limit), unit, written)
        for side, column in (("before", periods < limit), ("after", periods > limit)):
            if column.any():
                columns.append(column)
                says.append(f"{side} {name}")
    if not columns:  # all within one year or month
        return sp.csr_array((len(seconds), 0)), []
    return sp.csr_array(np.stack(columns, axis=1).astype(np.float32)), says


def _periods(seconds: np.ndarray, unit: str) -> np.ndarray:
    """The year or month of each date since 1970; NaN stays NaN, so that it is neither before nor after anything."""
    known = np.isfinite(seconds)
    periods = np.full(len(seconds), np.nan)
    periods[known] = seconds[known].astype("datetime64[s]").astype(f"datetime64[{unit}]").astype(np.int64)
    return periods


def _name(period: int, unit: str, written: str) -> str:
    if unit == "Y":
        return str(1970 + period)
    return datetime(1970 + period // 12, 1 + period % 12, 1, tzinfo=UTC).strftime(written)
