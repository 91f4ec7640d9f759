"""What the explorer answers about nodes: id search, nearest nodes, export of a selection."""

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

from afgrl.analysis.node_facts import NodeFacts
from afgrl.errors import UserError, unknown
from afgrl.report.arrays import as_strings
from afgrl.report.map_nodes import node_table
from afgrl.runs.added import all_names, all_vectors
from afgrl.runs.embeddings import FORMULA
from afgrl.runs.folder import Run

Format = Literal["csv", "parquet"]
MAX_QUOTED = 100  # characters of a wrong name that an error repeats


class UnknownNode(UserError):
    """A request names an id that the run does not have."""


@dataclass(frozen=True, eq=False)
class Nodes:
    """The nodes of a run in memory; ids are strings, as in the page."""

    ids: list[str]
    lowercase_ids: pa.Array
    lowercase_names: pa.Array | None  # None if the nodes have no names
    names: pa.ChunkedArray | None
    rows: dict[str, int]  # id → row
    unit: Tensor  # [n, d] float32, rows of length 1
    vectors: np.ndarray  # [n, d] float32
    table: pa.Table  # id, the user's columns, the cluster
    facts: NodeFacts

    @classmethod
    def from_run(cls, run: Run) -> Nodes:
        stored_ids, vectors = all_vectors(run)
        ids = [str(node_id) for node_id in stored_ids.tolist()]
        rows = {node_id: row for row, node_id in enumerate(ids)}
        unit = F.normalize(torch.from_numpy(vectors))
        stored_names = all_names(run)
        names = None if stored_names is None else stored_names[1]
        lowered_names = None if names is None else pc.utf8_lower(names).fill_null("").combine_chunks()
        lowered = pa.array([node_id.lower() for node_id in ids], pa.large_string())
        return cls(ids, lowered, lowered_names, names, rows, unit, vectors, node_table(run), NodeFacts.of_run(run))

    def name_of(self, row: int) -> str | None:
        name: str | None = None if self.names is None else self.names[row].as_py()
        return name


def search_rows(nodes: Nodes, text: str, limit: int) -> list[int]:
    """Rows of nodes whose id or name equals the text, then starts with it, then contains it; case is ignored.
    PyArrow compares a million texts in a fraction of a second and without Python's lock."""
    wanted = text.lower()
    found = dict[int, None]()
    for matches in (pc.equal, pc.starts_with, pc.match_substring):
        for texts in (nodes.lowercase_ids, nodes.lowercase_names):
            if texts is not None and len(found) < limit:
                # A later kind of match finds the rows of the earlier ones again.
                rows = pc.indices_nonzero(matches(texts, wanted))[: limit + len(found)]
                found |= dict.fromkeys(rows.to_pylist())
    return list(found)[:limit]


def node_and_nearest(nodes: Nodes, node_id: str, k: int) -> dict[str, Any]:
    """The ``k`` nodes nearest to one by cosine similarity, without the node itself; all others if there are fewer.

    The node and each neighbor come with their edges and words, which tell what they have in common.
    """
    row = nodes.rows.get(node_id)
    if row is None:
        raise UnknownNode(f"Unknown node {node_id[:MAX_QUOTED]!r}.")
    similarity = nodes.unit @ nodes.unit[row]
    similarity[row] = -torch.inf
    found = torch.topk(similarity, min(k, len(nodes.ids) - 1))
    pairs = zip(found.indices.tolist(), found.values.tolist(), strict=True)
    neighbors = [
        {"row": other, "id": nodes.ids[other], "similarity": round(value, 6), "facts": _facts_of(nodes, other)}
        for other, value in pairs
    ]
    return {"id": node_id, "row": row, "facts": _facts_of(nodes, row), "neighbors": neighbors}


def _facts_of(nodes: Nodes, row: int) -> dict[str, Any]:
    facts = nodes.facts
    return {
        "degree": int(facts.edges.full[row]),
        "edges": facts.edges.of(row),
        "words": [facts.names[code] for code in facts.words.of(row)],
    }


def export_rows(
    nodes: Nodes, rows: Sequence[int], format: Format, *, columns: Sequence[str] | None = None, vectors: bool = False
) -> tuple[bytes, int]:
    """Rows of the node table as a file, and the number of cells escaped so that a spreadsheet does not compute them."""
    if len(rows) > len(nodes.ids):  # a repeated row could make the file much larger than the run
        raise UserError(f"An export has at most {len(nodes.ids):,} rows, one for each node, not {len(rows):,}.")
    selected = np.asarray(rows, dtype=np.int64)
    invalid = selected[(selected < 0) | (selected >= len(nodes.ids))]
    if len(invalid):
        raise UserError(f"Row {invalid[0]} does not exist; the rows are 0 to {len(nodes.ids) - 1}.")
    for name in columns or ():
        if name not in nodes.table.column_names[1:]:
            raise unknown("column", name[:MAX_QUOTED], nodes.table.column_names[1:] or ["none"])
    if columns is not None and len(set(columns)) < len(columns):
        raise UserError("An export has each column once.")
    table = nodes.table.select(["id", *columns]) if columns is not None else nodes.table
    table = table.take(pa.array(selected))
    chosen = nodes.vectors[selected] if vectors else None
    return (_parquet_file(table, chosen), 0) if format == "parquet" else _csv_file(table, chosen)


def _parquet_file(table: pa.Table, vectors: np.ndarray | None) -> bytes:
    if vectors is not None:
        lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])
        table = _without_names(table, {"embedding"}).append_column("embedding", lists)
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


def _csv_file(table: pa.Table, vectors: np.ndarray | None) -> tuple[bytes, int]:
    dimensions = {} if vectors is None else {f"e{i}": pa.array(column) for i, column in enumerate(vectors.T)}
    table = _without_names(table, dimensions.keys())
    escaped = [_escape_formulas(column) for column in table.columns]
    names, n_escaped_names = _escape_formulas(pa.chunked_array([pa.array(table.column_names, pa.string())]))
    columns = {name: column for name, (column, _) in zip(names.to_pylist(), escaped, strict=True)}
    file = io.BytesIO()
    csv.write_csv(pa.table(columns | dimensions), file)
    return file.getvalue(), n_escaped_names + sum(n_escaped for _, n_escaped in escaped)


def _without_names(table: pa.Table, reserved: Set[str]) -> pa.Table:
    """The table with its columns renamed where they have a reserved name, which the vectors use."""
    taken = reserved | set(table.column_names)

    def free_name(name: str) -> str:
        return free_name(f"{name} (column)") if name in taken else name

    return table.rename_columns([free_name(name) if name in reserved else name for name in table.column_names])


def _escape_formulas(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, int]:
    """A text that a spreadsheet would read as a formula gets a leading apostrophe; numbers stay numbers."""
    kind = column.type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_boolean(kind):
        return column, 0
    text = as_strings(column)
    starts = "".join("\\-" if start == "-" else start for start in FORMULA)
    formula = pc.fill_null(pc.match_substring_regex(text, f"^[{starts}]"), False)
    n_formulas = pc.sum(formula).as_py() or 0
    quote, separator = (pa.scalar(part, text.type) for part in ("'", ""))
    return pc.if_else(formula, pc.binary_join_element_wise(quote, text, separator), text), int(n_formulas)
