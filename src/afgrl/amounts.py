"""How amounts are written in tables and messages: numbers, counts, sizes and times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

YEARS = (1000, 2200)  # integers of a column within these bounds are years, which have no commas
WRITTEN_OUT = (1e-12, 1e18)  # numbers of other sizes would be rows of zeros
UNITS = ("KiB", "MiB", "GiB", "TiB")


def shown(value: Any) -> str:
    """A cell of a table; empty for a missing one."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return number(value) if isinstance(value, float) else str(value)


def shown_column(values: Sequence[Any]) -> list[str]:
    """Cells of one column of a user's table."""
    known = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    whole = len(known) > 0 and all(math.isfinite(value) and value == int(value) for value in known)
    if whole and are_years(min(known), max(known)):
        return [shown(value if value is None else f"{value:.0f}") for value in values]
    return [shown(value) for value in values]


def are_years(least: float, most: float) -> bool:
    """Whether integers between these are years."""
    return YEARS[0] <= least and most <= YEARS[1]


def number(value: float, digits: int = 6) -> str:
    """With that many digits, or all digits of its whole part, without zeros at the end."""
    text = numbers([value], digits)[0]
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def numbers(values: Sequence[float], digits: int) -> list[str]:
    """All with the same number of decimals, so that the largest one has at least ``digits`` digits."""
    size = max(abs(value) for value in values)
    if size and not WRITTEN_OUT[0] <= size < WRITTEN_OUT[1]:  # also numbers that are not finite
        return [f"{value:.{digits}g}" for value in values]
    decimals = max(0, digits - 1 - math.floor(math.log10(size))) if size else 0
    return [f"{round(value, decimals) + 0.0:,.{decimals}f}" for value in values]  # + 0.0: no minus before a zero


def counted(n: int, thing: str, things: str = "") -> str:
    """``1 node``, ``2,000 nodes``."""
    return f"{n:,} {thing if n == 1 else things or thing + 's'}"


def byte_size(n_bytes: float) -> str:
    """``1.2 MiB``."""
    if n_bytes < 1000:
        return counted(round(n_bytes), "byte")
    size, unit = n_bytes / 1024, 0
    while size >= 1000 and unit + 1 < len(UNITS):
        size, unit = size / 1024, unit + 1
    return f"{size:,.1f}".removesuffix(".0") + f" {UNITS[unit]}"


def duration(seconds: float) -> str:
    """Never below 0, although the clock of a machine that was paused and moved can go back."""
    if seconds < 1:
        return f"{max(0, 1e3 * seconds):.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:,.0f} min"
