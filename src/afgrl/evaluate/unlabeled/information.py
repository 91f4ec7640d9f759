"""What the vector of each node is based on: its own features, its neighbors, both, or nothing."""

from __future__ import annotations

import torch

from afgrl.csr import csr_to_scipy
from afgrl.evaluate.matrix import is_sparse
from afgrl.graph import Graph


def information_shares(graph: Graph, reads: frozenset[str] = frozenset({"features", "edges"})) -> dict[str, float]:
    """Shares of the nodes by what decides their vectors: ``both``, ``features`` (no edges), ``neighbors`` (all features
    are 0) or ``nothing`` (neither, so that all such nodes have the same vector). ``reads``: what the method embeds
    from (``Method.reads``)."""
    linked = torch.zeros(graph.n, dtype=torch.bool).index_fill_(0, graph.edge_index.flatten().cpu(), True)
    if is_sparse(graph.x):
        described = torch.from_numpy(abs(csr_to_scipy(graph.x)).sum(1) > 0)
    else:
        described = (graph.x != 0).any(1).cpu()
    described &= "features" in reads
    linked &= "edges" in reads
    kinds = {
        "both": described & linked,
        "features": described & ~linked,
        "neighbors": ~described & linked,
        "nothing": ~described & ~linked,
    }
    return {name: float(rows.double().mean()) for name, rows in kinds.items()}
