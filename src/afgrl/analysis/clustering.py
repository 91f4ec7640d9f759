"""Clusters of the nodes of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from afgrl.analysis.added_nodes import save_clusters_of_all
from afgrl.analysis.cluster_description import describe_clusters
from afgrl.analysis.cluster_number import best_modularities, fewest_clusters
from afgrl.analysis.traits import traits_of
from afgrl.cost.storage import folder_after_training
from afgrl.data import Dataset
from afgrl.errors import UserError
from afgrl.evaluate import clustering_readout, smoothed_directions
from afgrl.graph import Graph
from afgrl.ops.kmeans import sampled_kmeans
from afgrl.ops.propagation.adjacency import gcn_norm
from afgrl.ops.storage import tables_in_files, unit_table
from afgrl.runs.folder import Run
from afgrl.runs.lock import writes_run

BY_MODULARITY, BY_USER = "modularity on the nearest-neighbor graph", "user"  # what chose the number of clusters
N_DIRECTIONS = 64  # of the readout, from which the number of clusters is chosen
READOUT, PLAIN = "clustering readout", "embedding"  # what was clustered
SAMPLE_SIZE = 3_000  # rows on which numbers of clusters are compared


@dataclass(frozen=True, eq=False)
class Clustering:
    labels: np.ndarray  # [n] int32; cluster 0 is the largest, 1 the next, …
    k: int  # number of clusters, none of them empty
    criterion: str  # what chose k
    tried: tuple[tuple[int, float], ...] = ()  # each k that was tried, with its modularity


@writes_run
def cluster_run(
    run: Run, k: int | None = None, *, seed: int = 0, plain: bool = False, data_dir: str | None = None
) -> dict[str, Any]:
    """Cluster the readout of a run, or with ``plain`` its vectors, and save the clusters in it.

    Returns the description of the clusters, which is saved with them.
    """
    dataset, width = run.dataset(data_dir), run.embedding_shape[1]
    with tables_in_files(folder_after_training(dataset.graph, width, torch.device("cpu"))):
        return _cluster_run(run, dataset, k, seed, plain)


def _cluster_run(run: Run, dataset: Dataset, k: int | None, seed: int, plain: bool) -> dict[str, Any]:
    ids, vectors = run.embedding()
    clustering = cluster_vectors(vectors, k, seed, graph=None if plain else dataset.graph)
    edges, names = dataset.graph.edge_index.numpy(), dataset.node_names
    clusters = describe_clusters(clustering.labels, vectors, ids, traits_of(dataset), edges, names)
    _add_names(clusters, ids, dataset)
    description = {
        "k": clustering.k,
        "clustered": PLAIN if plain else READOUT,
        "criterion": clustering.criterion,
        "tried": [{"k": number, "value": round(value, 6)} for number, value in clustering.tried],
        "clusters": clusters,
    }
    run.save_clusters(ids, clustering.labels, description)
    save_clusters_of_all(run)
    return description


def _add_names(clusters: list[dict[str, Any]], ids: np.ndarray, dataset: Dataset) -> None:
    """Add the names of the central nodes, in their order, if nodes have names."""
    if dataset.ingested is None or dataset.ingested.name_column is None:
        return
    name_of = dict(zip(ids.tolist(), dataset.node_names, strict=True))
    for cluster in clusters:
        cluster["closest_names"] = [name_of[node_id] for node_id in cluster["closest"]]


def cluster_vectors(
    vectors: np.ndarray, k: int | None = None, seed: int = 0, *, graph: Graph | None = None
) -> Clustering:
    """Cluster the unit-length vectors with k-means. If vectors are equal, there may be fewer than ``k`` clusters.

    With the graph of their nodes, the unit rows of ``clustering_readout`` are clustered instead.
    Without ``k``, the number is chosen by modularity (``best_modularities``, ``fewest_clusters``) on at most 3,000
    rows.
    """
    _check(vectors, k)
    x = torch.from_numpy(np.asarray(vectors, dtype=np.float32))
    adjacency = None if graph is None else gcn_norm(graph)
    if graph is not None and adjacency is not None:
        x = smoothed_directions(x, graph.x, adjacency)
    generator = torch.Generator().manual_seed(seed)
    tried: dict[int, float] = {}
    if k is None:
        rows = torch.randperm(len(x), generator=generator)[:SAMPLE_SIZE]
        columns = slice(None) if adjacency is None else slice(N_DIRECTIONS)
        tried = best_modularities(F.normalize(x[rows, columns]), generator)
    n_clusters = fewest_clusters(tried) if k is None else k
    if adjacency is not None:
        x = clustering_readout(x, adjacency, n_clusters, seed)
    clusters = sampled_kmeans(unit_table(x), n_clusters, generator)
    labels = _number_by_size(clusters.numpy())
    criterion = BY_USER if k is not None else BY_MODULARITY
    return Clustering(labels, int(labels.max()) + 1, criterion, tuple(sorted(tried.items())))


def _check(vectors: np.ndarray, k: int | None) -> None:
    if vectors.ndim != 2 or len(vectors) == 0:
        raise UserError(f"Clustering needs vectors of the shape [nodes, width], but their shape is {vectors.shape}.")
    if not np.isfinite(vectors).all():
        n_invalid = int((~np.isfinite(vectors)).sum())
        raise UserError(f"The vectors contain {n_invalid} value(s) that are NaN or infinite.")
    if k is not None and not 1 <= k <= len(vectors):
        raise UserError(f"The number of clusters must be between 1 and {len(vectors)}, not {k}.")


def _number_by_size(labels: np.ndarray) -> np.ndarray:
    """Renumber the clusters that are not empty by decreasing size."""
    _, compact, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    rank = np.empty(len(sizes), dtype=np.int32)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    return rank[compact]
