"""What the explorer is asked about: ids that hold a text, the nearest nodes, a part of the table."""

from __future__ import annotations

import io
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from pyarrow import compute as pc
from pyarrow import csv, types
from torch import Tensor
from torch.nn import functional as F

from afgrl.errors import UserError, unknown
from afgrl.report.arrays import texts
from afgrl.report.payload import table_with_cluster
from afgrl.runs import Run
from afgrl.vectors import FORMULA

Format = Literal["csv", "parquet"]


class UnknownNode(UserError):
    """There is no such id."""


@dataclass(frozen=True, eq=False)
class Nodes:
    """The nodes of a run in memory; ids are text, as a page knows them."""

    ids: list[str]
    lowered: list[str]
    rows: dict[str, int]
    unit: Tensor  # [n, d] float32, rows of unit length
    vectors: np.ndarray  # [n, d] float32
    table: pa.Table  # id, the user's columns, the cluster

    @classmethod
    def of(cls, run: Run) -> Nodes:
        found, vectors = run.embedding()
        ids = [str(name) for name in found.tolist()]
        rows = {name: row for row, name in enumerate(ids)}
        unit = F.normalize(torch.from_numpy(vectors))
        return cls(ids, [name.lower() for name in ids], rows, unit, vectors, table_with_cluster(run))


def find(nodes: Nodes, text: str, limit: int) -> list[str]:
    """Ids that are, begin with or hold a text, in this order; capitals do not matter."""
    wanted = text.lower()
    holding = [row for row, name in enumerate(nodes.lowered) if wanted in name]
    exact = [row for row in holding if nodes.lowered[row] == wanted]
    first = [row for row in holding if nodes.lowered[row].startswith(wanted)]
    return [nodes.ids[row] for row in dict.fromkeys(exact + first + holding)][:limit]


def nearest(nodes: Nodes, name: str, k: int) -> list[dict[str, Any]]:
    """The ``k`` nodes nearest to one by cosine, itself left out; all others if there are fewer."""
    row = nodes.rows.get(name)
    if row is None:
        raise UnknownNode(f"There is no node {name[:100]!r}.")
    similarity = nodes.unit @ nodes.unit[row]
    similarity[row] = -torch.inf
    found = torch.topk(similarity, min(k, len(nodes.ids) - 1))
    pairs = zip(found.indices.tolist(), found.values.tolist(), strict=True)
    return [{"row": other, "id": nodes.ids[other], "similarity": round(value, 6)} for other, value in pairs]


def exported(
    nodes: Nodes, rows: Sequence[int], format: Format, *, columns: Sequence[str] | None = None, vectors: bool = False
) -> tuple[bytes, int]:
    """A part of the table as a file, and how many cells a spreadsheet would have computed."""
    place = np.asarray(rows, dtype=np.int64)
    wrong = place[(place < 0) | (place >= len(nodes.ids))]
    if len(wrong):
        raise UserError(f"There is no row {wrong[0]}; the rows are 0 to {len(nodes.ids) - 1}.")
    for name in columns or ():
        if name not in nodes.table.column_names[1:]:
            raise unknown("column", name[:100], nodes.table.column_names[1:] or ["none"])
    table = nodes.table.select(["id", *columns]) if columns is not None else nodes.table
    table = table.take(pa.array(place))
    chosen = nodes.vectors[place] if vectors else None
    return _parquet(table, chosen) if format == "parquet" else _csv(table, chosen)


def _parquet(table: pa.Table, vectors: np.ndarray | None) -> tuple[bytes, int]:
    if vectors is not None:
        lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])
        table = _making_way(table, {"embedding"}).append_column("embedding", lists)
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue(), 0


def _csv(table: pa.Table, vectors: np.ndarray | None) -> tuple[bytes, int]:
    numbers = {} if vectors is None else {f"e{place}": pa.array(column) for place, column in enumerate(vectors.T)}
    table = _making_way(table, numbers.keys())
    guarded = [_guarded(column) for column in table.columns]
    heads, changed_heads = _guarded(pa.chunked_array([pa.array(table.column_names, pa.string())]))
    parts = {name: column for name, (column, _) in zip(heads.to_pylist(), guarded, strict=True)}
    file = io.BytesIO()
    csv.write_csv(pa.table(parts | numbers), file)
    return file.getvalue(), changed_heads + sum(changed for _, changed in guarded)


def _making_way(table: pa.Table, wanted: Set[str]) -> pa.Table:
    """The table with other names for the user's columns that are named as those of the vectors."""
    taken = wanted | set(table.column_names)

    def free(name: str) -> str:
        return free(f"{name} (column)") if name in taken else name

    return table.rename_columns([free(name) if name in wanted else name for name in table.column_names])


def _guarded(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, int]:
    """Texts that a spreadsheet would compute get an apostrophe in front; numbers stay numbers."""
    kind = column.type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_boolean(kind):
        return column, 0
    text = texts(column)
    risky = pc.fill_null(pc.match_substring_regex(text, f"^[{''.join(FORMULA[:2])}\\-{''.join(FORMULA[3:])}]"), False)
    changed = pc.sum(risky).as_py() or 0
    quote, nothing = (pa.scalar(part, text.type) for part in ("'", ""))
    return pc.if_else(risky, pc.binary_join_element_wise(quote, text, nothing), text), int(changed)
