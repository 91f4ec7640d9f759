"""How clusters fit the edges of their graph: modularity, conductance, and the entropy of cluster sizes."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from afgrl.graph import Graph


def modularity(labels: Tensor, graph: Graph) -> float:
    """The share of edges inside clusters minus the share that random edges with the same degrees would have.

    Σ_c [ w_c / w - (d_c / 2w)² ], with the weight w of all edges, w_c of those inside cluster c, and the sum of degrees
    d_c. Newman, "Finding and evaluating community structure in networks" (with Girvan, Physical Review E 2004), with
    edge weights as in Newman 2004. ``labels`` [n] are cluster numbers. 0 for a graph without edges.
    """
    inside, volume = _inside_and_volume(labels, graph)
    total = float(volume.sum())
    return float((inside / total - (volume / total).square()).sum()) if total else 0.0


def conductances(labels: Tensor, graph: Graph) -> Tensor:
    """Of each cluster, the share of its edge ends that leave it: cut(c) / min(vol(c), vol(rest)): [c] float64.

    Low is good: the cluster is separated. NaN where a cluster or its complement has no edge. Shi and Malik, "Normalized
    cuts and image segmentation", 2000; as a measure of communities: Yang and Leskovec 2012.
    """
    inside, volume = _inside_and_volume(labels, graph)
    smaller = torch.minimum(volume, volume.sum() - volume)
    return torch.where(smaller > 0, (volume - inside) / smaller, torch.nan)


def size_entropy(labels: Tensor) -> float:
    """The entropy of cluster sizes divided by log(number of clusters): 1 if all have one size, near 0 if one cluster
    has nearly all nodes. Such clusters can have a high modularity and a low conductance, so it is read beside them."""
    sizes = torch.bincount(labels).double()
    if len(sizes) < 2:
        return 0.0
    return float(torch.special.entr(sizes / sizes.sum()).sum()) / math.log(len(sizes))


def _inside_and_volume(labels: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
    """For each cluster, the sums of the edge weights at its ends inside it and at all its ends: [c] float64 each.

    An undirected edge is stored in both directions, so each end is counted once. A directed edge counts at both of its
    ends, as an undirected edge would.
    """
    labels = labels.to(graph.edge_index.device, torch.int64)
    source, target = labels[graph.edge_index]
    weight = torch.ones(len(source), dtype=torch.float64, device=source.device)
    if graph.edge_weight is not None:
        weight = graph.edge_weight.double()
    n_clusters = int(labels.max()) + 1
    volume = torch.bincount(source, weight, n_clusters)
    inside = torch.bincount(source, weight * (source == target), n_clusters)
    if graph.directed:
        volume, inside = volume + torch.bincount(target, weight, n_clusters), 2 * inside
    return inside.cpu(), volume.cpu()
