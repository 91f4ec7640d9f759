"""What distinguishes clusters: their names, sizes, traits, edges and most central nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from afgrl.analysis.cluster_names import Difference, Structure, name_clusters
from afgrl.analysis.traits import BLOCK_ROWS, Traits, row_blocks
from afgrl.ops.storage import unit_table

MAX_LISTED = 10  # traits and nodes per cluster


def describe_clusters(
    labels: np.ndarray,
    vectors: np.ndarray,
    ids: np.ndarray,
    traits: Traits,
    edge_index: np.ndarray,
    names: np.ndarray | None = None,
) -> list[dict[str, Any]]:
    """One entry per cluster: its name, size, distinctive traits, edges, and most central nodes.

    ``labels`` [n] are 0…k-1, ``edge_index`` [2, e] has both directions of each edge, and ``names`` [n] are the texts by
    which nodes are shown, by default their ids. The means and shares of traits are in the user's own units.
    """
    k = int(labels.max()) + 1
    shown = ids.astype(str) if names is None else names
    differences = _distinctive_traits(labels, k, traits) if k > 1 else [[]]
    central = _central_rows(labels, k, vectors)
    centers, structures = _structures(labels, k, edge_index, shown, [rows[0] for rows in central])
    return [
        {
            "cluster": number,
            "name": name,
            "size": int((labels == number).sum()),
            "features": [difference.as_json() for difference in differences[number]],
            "edges": {"inside": structures[number].inside, "total": structures[number].total},
            "center": ids[centers[number]].item() if ids.dtype.kind in "iu" else str(ids[centers[number]]),
            "closest": ids[central[number]].tolist(),
        }
        for number, name in enumerate(name_clusters(differences, structures))
    ]


def _central_rows(labels: np.ndarray, k: int, vectors: np.ndarray) -> list[np.ndarray]:
    """For each cluster, the rows with the highest cosine to its mean direction, highest first."""
    x = unit_table(torch.from_numpy(np.asarray(vectors, dtype=np.float32)))
    cluster = torch.from_numpy(labels.astype(np.int64))
    means = torch.zeros(k, x.shape[1]).index_add_(0, cluster, x)
    blocks = zip(x.split(BLOCK_ROWS), cluster.split(BLOCK_ROWS), strict=True)
    similarity = torch.cat([(rows * means[own]).sum(1) for rows, own in blocks]).numpy()
    order = np.lexsort((-similarity, labels))
    starts = np.searchsorted(labels[order], np.arange(k + 1))
    return [order[starts[number] : starts[number + 1]][:MAX_LISTED] for number in range(k)]


def _structures(
    labels: np.ndarray, k: int, edge_index: np.ndarray, names: np.ndarray, first: list[int]
) -> tuple[list[int], list[Structure]]:
    """For each cluster, the row of its center and its edges. Without edges inside, the center is its ``first`` row."""
    source, target = edge_index
    same = labels[source] == labels[target]
    inside_degree = np.bincount(source[same], minlength=len(labels))
    order = np.lexsort((-np.bincount(source, minlength=len(labels)), -inside_degree, labels))
    hubs = order[np.searchsorted(labels[order], np.arange(k))]
    inside = np.bincount(labels[source[same]], minlength=k) // 2
    crossing = np.bincount(labels[source[~same]], minlength=k)
    centers, structures = [], []
    for number in range(k):
        centers.append(int(hubs[number] if inside[number] else first[number]))
        outside = ""
        if crossing[number] and not inside[number]:
            outside = str(names[np.bincount(target[labels[source] == number]).argmax()])
        n_inside = int(inside[number])
        structures.append(Structure(str(names[centers[-1]]), n_inside, n_inside + int(crossing[number]), outside))
    return centers, structures


def _distinctive_traits(labels: np.ndarray, k: int, traits: Traits) -> list[list[Difference]]:
    """For each cluster, the traits that differ most from those of the other nodes.

    Of traits that are true or false, only those that more nodes have are listed: the absence of a word says little.
    """
    n_numbers = traits.numbers.shape[1]
    parts = [_standardized_differences(*_number_sums(labels, k, traits.numbers), labels)]
    parts.append(_standardized_differences(*_truth_sums(labels, k, traits.truths), labels))
    difference, here, elsewhere = (np.concatenate(columns, axis=1) for columns in zip(*parts, strict=True))
    score = difference.copy()
    score[:, :n_numbers] = np.abs(score[:, :n_numbers])
    order = np.argsort(-score, axis=1, kind="stable")[:, :MAX_LISTED]
    return [
        [
            Difference(traits.traits[j], float(here[number, j]), float(elsewhere[number, j]), float(score[number, j]))
            for j in order[number]
            if score[number, j] > 0
        ]
        for number in range(k)
    ]


Sums = tuple[np.ndarray, np.ndarray, np.ndarray]  # of values, of their squares, and of nodes with a value: each [k, f]


def _standardized_differences(
    sums: np.ndarray, squares: np.ndarray, known: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mean in the cluster - mean elsewhere) / standard deviation within both, and the two means; each [k, f].

    The cluster is extended by one average node from elsewhere, so that a word of one node out of three scores lower
    than a word that all three have, even if no other node has either.
    """
    outside = known.sum(0) - known
    here, elsewhere = sums / np.maximum(known, 1), (sums.sum(0) - sums) / np.maximum(outside, 1)
    square_elsewhere = (squares.sum(0) - squares) / np.maximum(outside, 1)
    mean = (sums + elsewhere) / (known + 1)
    variance = ((squares + square_elsewhere) / (known + 1) - mean**2 + square_elsewhere - elsewhere**2) / 2
    varies = variance > 1e-12 * squares.sum(0) / len(labels)  # less is the rounding error of a constant feature
    varies &= (known > 0) & (outside > 0)
    return (mean - elsewhere) / np.sqrt(np.where(varies, variance, np.inf)), here, elsewhere


def _number_sums(labels: np.ndarray, k: int, numbers: np.ndarray) -> Sums:
    sums, squares, known = (torch.zeros(k, numbers.shape[1], dtype=torch.float64) for _ in range(3))
    own = torch.from_numpy(labels.astype(np.int64)).split(BLOCK_ROWS)
    for rows, cluster in zip(row_blocks(numbers), own, strict=True):
        values = torch.from_numpy(np.ascontiguousarray(rows)).double()
        filled = values.nan_to_num(0.0)
        sums.index_add_(0, cluster, filled)
        squares.index_add_(0, cluster, filled.square())
        known.index_add_(0, cluster, values.isfinite().double())
    return sums.numpy(), squares.numpy(), known.numpy()


def _truth_sums(labels: np.ndarray, k: int, truths: sp.csr_array) -> Sums:
    """Without a dense copy of the traits. The square of 1 is 1."""
    n = len(labels)
    members = sp.csr_array((np.ones(n), (labels, np.arange(n))), shape=(k, n))
    sums = (members @ truths).toarray()
    sizes = np.bincount(labels, minlength=k).astype(float)[:, None]
    return sums, sums, np.broadcast_to(sizes, sums.shape)
