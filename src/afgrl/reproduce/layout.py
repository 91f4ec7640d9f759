"""A table, and its forms: terminal, Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.table import Table as RichTable

Entry = str | float | None  # None: no value


@dataclass(frozen=True)
class Column:
    title: str
    digits: int | None = None  # decimals of its numbers; None for text
    signed: bool = False

    def text(self, entry: Entry) -> str:
        if entry is None:
            return "–"
        if isinstance(entry, str) or self.digits is None:
            return str(entry)
        return f"{entry:{'+' if self.signed else ''},.{self.digits}f}"


@dataclass(frozen=True)
class Table:
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Entry]]

    def texts(self) -> list[list[str]]:
        return [[column.text(entry) for column, entry in zip(self.columns, row, strict=True)] for row in self.rows]


SPREAD = "±"  # title of a column that belongs to the one before it, like a column without a title
BELOW = "below"  # marks a value below the published one by more than the spread


def compared(title: str, digits: int) -> list[Column]:
    """The columns of one score: our value, its spread, the difference from the published value, and a mark."""
    return [
        Column(title, digits), Column(SPREAD, digits), Column("diff.", digits, signed=True), Column("", None),
    ]  # fmt: skip


def comparison(published: float | None, ours: float, spread: float) -> list[Entry]:
    """The entries under ``compared``. Without a spread (a single value) nothing is marked."""
    if published is None:
        return [ours, spread, None, ""]
    return [ours, spread, ours - published, BELOW if 0 < spread < published - ours else ""]


def over_seeds(scores: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """The mean over training seeds, and the spread over seeds or within a run (splits, k-means fits), if larger."""
    means = [score["mean"] for score in scores]
    return statistics.mean(means), max(statistics.pstdev(means), statistics.mean(score["std"] for score in scores))


def terminal(table: Table) -> RichTable:
    """Narrow: spread and mark share the column they belong to."""
    shown = RichTable(box=box.SIMPLE, title=table.title, title_justify="left", padding=(0, 1, 0, 0))
    for column in table.columns:
        if column.title not in (SPREAD, ""):
            is_text = column.digits is None
            shown.add_column(column.title, justify="left" if is_text else "right", no_wrap=not is_text)
    for row in table.texts():
        cells: list[str] = []
        for column, text in zip(table.columns, row, strict=True):
            if column.title == SPREAD:
                cells[-1] += f" ± {text}"
            elif column.title == "":
                cells[-1] += " ▼" if text == BELOW else ""
            else:
                cells.append(text)
        shown.add_row(*cells, style="yellow" if BELOW in row else None)
    return shown


def markdown(table: Table) -> str:
    lines = [f"**{table.title}**", "", _line([column.title for column in table.columns])]
    lines += [_line(["---" if column.digits is None else "---:" for column in table.columns])]
    lines += [_line([text.replace("|", "\\|") for text in row]) for row in table.texts()]
    return "\n".join([*lines, ""]) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def comma_separated(table: Table) -> str:
    """With all digits."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column.title for column in table.columns])
    writer.writerows([["" if entry is None else entry for entry in row] for row in table.rows])
    return out.getvalue()


def latex(table: Table) -> str:
    """A tabular for booktabs."""
    alignment = "".join("l" if column.digits is None else "r" for column in table.columns)
    head = " & ".join(_escaped(column.title) for column in table.columns)
    body = [" & ".join(_escaped(text) for text in row) + r" \\" for row in table.texts()]
    lines = [r"\begin{tabular}{" + alignment + "}", r"\toprule", head + r" \\", r"\midrule", *body, r"\bottomrule"]
    return "\n".join([f"% {table.title}", *lines, r"\end{tabular}"]) + "\n"


def _escaped(text: str) -> str:
    for character in "&%#_{}":
        text = text.replace(character, "\\" + character)
    return text.replace("±", r"$\pm$").replace("–", "--").replace("−", "$-$")
