"""What the explorer answers about nodes: search, nearest nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from pyarrow import compute as pc
from torch import Tensor

from afgrl.analysis.node_facts import NodeFacts
from afgrl.errors import UserError
from afgrl.explore.parameters import MAX_QUOTED
from afgrl.ops.sparse.rows import SMALLEST
from afgrl.report.map_nodes import node_table
from afgrl.runs.added import all_names, all_vectors
from afgrl.runs.folder import Run


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
    vectors: np.ndarray  # [n, d] float32
    lengths: Tensor  # [n] of the vectors
    table: pa.Table  # id, the user's columns, the cluster
    facts: NodeFacts

    @classmethod
    def from_run(cls, run: Run) -> Nodes:
        stored_ids, vectors = all_vectors(run)
        ids = [str(node_id) for node_id in stored_ids.tolist()]
        rows = {node_id: row for row, node_id in enumerate(ids)}
        lengths = torch.linalg.vector_norm(torch.from_numpy(vectors), dim=1).clamp(min=SMALLEST)
        stored_names = all_names(run)
        names = None if stored_names is None else stored_names[1]
        lowered_names = None if names is None else pc.utf8_lower(names).fill_null("").combine_chunks()
        lowered = pc.utf8_lower(pa.array(ids, pa.large_string()))
        table, facts = node_table(run), NodeFacts.of_run(run)
        return cls(ids, lowered, lowered_names, names, rows, vectors, lengths, table, facts)

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
    vectors = torch.from_numpy(nodes.vectors)
    similarity = (vectors @ (vectors[row] / nodes.lengths[row])).div_(nodes.lengths)
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
        "degree": facts.edges.length(row),
        "edges": facts.edges.of(row),
        "words": [facts.names[code] for code in facts.words.of(row)],
    }
