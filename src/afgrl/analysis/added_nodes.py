"""New nodes that stay with a run: search, cluster and the map answer for them as for the nodes it was trained on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from afgrl.amounts import counted
from afgrl.analysis.added_facts import linked_ids, words_of_nodes
from afgrl.analysis.new_nodes import NewNodes, embed_new_nodes
from afgrl.errors import UserError
from afgrl.graph import as_text
from afgrl.ops.knn import nearest_neighbors
from afgrl.runs.added import (
    Addition,
    addition_name,
    additions,
    all_ids,
    all_vectors,
    remove_addition,
    save_addition,
)
from afgrl.runs.folder import Run
from afgrl.runs.lock import writes_run
from afgrl.runs.spec import short_name

N_VOTES = 10  # nodes of the training graph that choose the cluster of an added node


@writes_run
def add_nodes(
    run: Run,
    source: str,
    device: torch.device,
    *,
    data_dir: str | None = None,
    alone: bool = False,
    force: bool = False,
    message: Callable[[str], Any] = lambda sentence: None,
) -> Addition:
    """Embed the nodes of ``source`` that the run does not have, and store them in it under the name of the source.

    A node that the run has keeps its vector. Without a column of ids, row 3 of new-week.csv becomes the node
    new-week:3. ``force`` replaces an earlier addition of that name.
    """
    name = addition_name(short_name(source))
    others = [addition for addition in additions(run) if addition.name != name]
    if not force and len(others) < len(additions(run)):
        raise UserError(f"The run {str(run.path)!r} has an addition {name!r}; use --force to replace it.")
    new = embed_new_nodes(run, source, device, data_dir=data_dir, alone=alone, message=message)
    if not new.numbered:
        _check_other_additions(new, others, source)
    rows = np.arange(len(new.ids)) if new.numbered else _unknown_rows(new, run.embedding_ids(), source, message)
    nodes = _columns_as_in(run.nodes(), new.ids[rows], new.columns, source, message)
    if new.numbered:  # a row number would be the id of another node
        nodes = nodes.set_column(0, "id", pa.array([f"{name}:{number}" for number in new.ids]))
    linked = linked_ids(new, rows, as_text(nodes["id"].to_numpy()))
    addition = Addition(name, nodes, new.vectors[rows], linked, words_of_nodes(new.source, new.ids[rows]))
    save_addition(run, addition)
    save_clusters_of_all(run)
    return addition


@writes_run
def remove_nodes(run: Run, name: str) -> None:
    """Forget an addition."""
    remove_addition(run, name)
    save_clusters_of_all(run)


def all_clusters(run: Run) -> np.ndarray | None:
    """The cluster of each node, also of the added ones, [n] int32; None before `afgrl cluster`.

    Clusters of the training nodes do not change.
    """
    found = run.clusters()
    if found is None:
        return None
    labels, description = found
    if not additions(run):
        return labels
    trained, every = run.embedding()[1], all_vectors(run)[1]
    return np.concatenate([labels, voted_clusters(every[len(trained) :], trained, labels, description["k"])])


def voted_clusters(vectors: np.ndarray, trained: np.ndarray, labels: np.ndarray, n_clusters: int) -> np.ndarray:
    """The cluster of each vector [m, d]: that of most of the ten most similar training nodes, weighted by their
    similarity: [m] int32."""
    keys = torch.from_numpy(trained)
    nearest = nearest_neighbors(torch.from_numpy(vectors), keys, min(N_VOTES, len(keys)))
    votes = torch.zeros(len(vectors), n_clusters)
    voted = torch.from_numpy(labels.astype(np.int64))[nearest.index]
    votes.scatter_add_(1, voted, nearest.similarity.clamp(min=1e-6))
    return votes.argmax(1).numpy().astype(np.int32)


def save_clusters_of_all(run: Run) -> None:
    """Write the clusters again, with the nodes that the run has now; nothing before `afgrl cluster`."""
    labels, found = all_clusters(run), run.clusters()
    if labels is not None and found is not None:
        run.save_clusters(all_ids(run), labels, found[1])


def _check_other_additions(new: NewNodes, others: list[Addition], source: str) -> None:
    """The features of added nodes are not stored, so that they cannot be embedded again with new edges."""
    for addition in others:
        shared = set(as_text(new.ids)) & set(as_text(addition.ids))
        if shared:
            raise UserError(
                f"{source} has the node {min(shared)!r} of the addition {addition.name!r}; remove that one "
                f"(afgrl remove RUN {addition.name}) and add both from one folder."
            )


def _unknown_rows(new: NewNodes, known_ids: np.ndarray, source: str, message: Callable[[str], Any]) -> np.ndarray:
    """The rows of the nodes that the run does not have."""
    known = np.isin(as_text(new.ids).astype(str), as_text(known_ids).astype(str))
    n_known = int(known.sum())
    if n_known and not new.joined:
        raise UserError(
            f"{n_known:,} of the {len(known):,} ids in {source} are ids of other nodes of the run; an added node needs "
            "a new id."
        )
    if n_known == len(known):
        raise UserError(
            f"All nodes of {source} are in the run already ({counted(n_known, 'node')}), so there is nothing to add."
        )
    if n_known:
        message(f"Nodes that the run has already, which keep their vectors: {n_known:,}.")
    return np.flatnonzero(~known)


def _columns_as_in(
    own: pa.Table, ids: np.ndarray, columns: pa.Table | None, source: str, message: Callable[[str], Any]
) -> pa.Table:
    """``id`` and the columns of the run, with their types; a column that the source lacks is empty."""
    table: dict[str, Any] = {"id": pa.array(ids)}
    if columns is not None:
        place = {name: row for row, name in enumerate(as_text(columns["id"].to_numpy()))}
        columns = columns.take(pa.array([place[name] for name in as_text(ids)]))
    for field in [own.schema.field(name) for name in own.column_names[1:]]:
        table[field.name] = pa.nulls(len(ids), field.type)
        if columns is not None and field.name in columns.column_names:
            try:
                table[field.name] = columns[field.name].cast(field.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                message(f"Warning: the column {field.name!r} of {source} is not {field.type}, so it stays empty.")
    return pa.table(table)
