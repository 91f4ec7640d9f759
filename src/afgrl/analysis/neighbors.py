"""The nodes most similar to a node, by the vectors of a run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from afgrl.amounts import counted
from afgrl.analysis.index import as_tensors, open_index
from afgrl.data.ingest import first_few
from afgrl.errors import UserError, unknown
from afgrl.graph import as_text
from afgrl.ops.knn import Neighbors
from afgrl.ops.knn.blocks import nearest_in_blocks
from afgrl.runs.added import additions, all_ids, all_names, all_nodes, vector_groups, vectors_of
from afgrl.runs.folder import Run
from afgrl.runs.in_memory import RunInMemory


class SimilarNodes(dict[str, list[dict[str, object]]]):
    """id → [{"id", "similarity", "name", "columns"}, …] for each requested node, and how the neighbors were found.
    ``name`` is present if the run has names, ``columns`` if nodes have other columns."""

    algorithm: str = "exact"  # or the kind of index: hnsw, ivf
    titles: dict[str, str]  # id → "name (id)", or the id
    recall: float = 1.0  # share of the ten nearest nodes that are found, measured when the index was built


def find_similar(run: Run, wanted: Sequence[str], k: int = 10, *, index: bool = False) -> SimilarNodes:
    """The ``k`` nodes with the highest cosine similarity to each wanted node, without the node itself. A node is wanted
    by its id, or by its name or a part of it, if no other node has it.

    A graph with fewer other nodes returns all of them. With ``index``, the run's approximate index is used; it is built
    if the run has none.
    """
    if k < 1:
        raise UserError(f"The number of neighbors must be at least 1, not {k}.")
    run = RunInMemory(run.path)  # names and columns are asked for several times
    ids = all_ids(run)
    k = min(k, len(ids) - 1)
    names = all_names(run)
    rows = [_row_of(ids, names and names[1], name, k) for name in wanted]
    own = [str(ids[row]) for row in rows]
    answer = SimilarNodes()
    answer.titles = {name: _title(name, names and names[1][row].as_py()) for name, row in zip(own, rows, strict=True)}
    # One group of rows at a time: all vectors of a large run would take gigabytes, to find a few of them.
    query = torch.from_numpy(vectors_of(run, np.array(rows)))
    if index:
        opened = open_index(run)
        neighbors = opened.nearest(query, k + 1)  # one more, because the node finds itself
        neighbors = _with_added(neighbors, query, [addition.vectors for addition in additions(run)], opened.n, k + 1)
        answer.algorithm, answer.recall = opened.description.kind, opened.description.recall
    else:
        neighbors = nearest_in_blocks(query, as_tensors(vector_groups(run)), k + 1)
    nodes = _readable_columns(all_nodes(run)) if run.data() else pa.table({"id": pa.nulls(len(ids))})
    name_column = names[0] if names else None
    for name, row, nearest, similarity in zip(own, rows, neighbors.index, neighbors.similarity, strict=True):
        others = (nearest != row) & (nearest >= 0)  # an index returns -1 if it finds fewer
        found, values = nearest[others][:k], similarity[others][:k].tolist()
        answer[name] = [
            {"id": other, "similarity": round(value, 6)} | described
            for other, value, described in zip(
                ids[found.numpy()].tolist(), values, _described(nodes, found.numpy(), name_column), strict=True
            )
        ]
    return answer


def _with_added(found: Neighbors, query: Tensor, added: list[np.ndarray], n_trained: int, k: int) -> Neighbors:
    """The ``k`` nearest of those found in an index and of all added rows, which no index contains."""
    if not added:
        return found
    exact = nearest_in_blocks(query, as_tensors(added), k)
    index = torch.cat([found.index, exact.index + n_trained], 1)
    # An index returns -1 where it finds fewer, with a similarity that means nothing.
    similarity = torch.cat([found.similarity.masked_fill(found.index < 0, -torch.inf), exact.similarity], 1)
    best = similarity.topk(min(k, similarity.shape[1]), 1)
    return Neighbors(index.gather(1, best.indices), best.values)


def _title(node_id: str, name: str | None) -> str:
    return node_id if name is None else f"{name} ({node_id})"


def _readable_columns(nodes: pa.Table) -> pa.Table:
    return nodes.select([name for name in nodes.column_names if not _is_opaque(nodes[name].type)])


def _described(nodes: pa.Table, rows: np.ndarray, name_column: str | None) -> list[dict[str, Any]]:
    """The name, if there is a column of names, and the columns of these nodes, as JSON."""
    described = []
    for cells in nodes.take(pa.array(rows)).to_pylist():
        columns = {column: _as_json(value) for column, value in cells.items() if column not in ("id", name_column)}
        name = {} if name_column is None else {"name": _as_json(cells[name_column])}
        described.append(name | ({"columns": columns} if columns else {}))
    return described


def _is_opaque(kind: pa.DataType) -> bool:
    """Vectors and bytes say nothing to a reader."""
    return pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def _as_json(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value if _is_plain(value) else str(value)


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and np.isfinite(value))


def _row_of(ids: np.ndarray, names: pa.ChunkedArray | None, wanted: str, k: int) -> int:
    """The row of an id or name; if several nodes have the name, an error with the first ``k`` of them. Ids are compared
    as text, because a command line has only text."""
    rows = _rows_with_id(ids, wanted)
    if not len(rows) and names is not None:
        rows = _rows_named(names, wanted)
    if len(rows) > 1:
        some = first_few([f"{names[int(row)]} ({ids[row]})" for row in rows[:k]], k)  # type: ignore[index]
        more = f" and {len(rows) - k:,} more; -k {len(rows)} lists all" if len(rows) > k else ""
        raise UserError(f"{counted(len(rows), 'node')} have {wanted!r} in their name; pass an id: {some}{more}.")
    if len(rows):
        return int(rows[0])
    if names is None and ids.dtype.kind in "iu":
        raise UserError(f"Unknown node {wanted!r}; the ids range from {ids.min()} to {ids.max()}.")
    known = [] if names is None else [str(name) for name in names.drop_null().to_pylist()]
    raise unknown("node", wanted, [*as_text(ids), *known])


def _rows_with_id(ids: np.ndarray, wanted: str) -> np.ndarray:
    if ids.dtype.kind not in "iu":
        return np.flatnonzero(as_text(ids) == wanted)
    try:
        number = int(wanted)
    except ValueError:
        return np.zeros(0, np.int64)
    return np.flatnonzero(ids == number) if str(number) == wanted else np.zeros(0, np.int64)  # not 007, nor 1_000


def _rows_named(names: pa.ChunkedArray, wanted: str) -> np.ndarray:
    """The rows whose name is this text, else those whose name contains it; case is ignored."""
    lowered = pc.utf8_lower(names).fill_null("")
    for matches in (pc.equal(lowered, wanted.lower()), pc.match_substring(lowered, wanted.lower())):
        rows = np.flatnonzero(matches.to_numpy())
        if len(rows):
            break
    return rows
