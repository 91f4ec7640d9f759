"""K-means by faiss, as the authors' code runs it: for fidelity, not for speed."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from afgrl.errors import UserError
from afgrl.ops.kmeans import Clusters

FIRST_SEED = 1234  # the authors': restart i starts from seed 1234 + i, the same at every step


def kmeans_faiss(x: Tensor, n_clusters: int, *, n_restarts: int, n_iters: int) -> Clusters:
    """``n_restarts`` runs of ``faiss.Kmeans``. It learns from at most 256 rows a center and splits large
    clusters to fill empty ones; ours does neither."""
    try:
        import faiss
    except ImportError:
        raise UserError("kmeans_backend 'faiss' needs faiss: pip install 'afgrl[index]'.") from None
    faiss.omp_set_num_threads(torch.get_num_threads())  # with all cores of a large machine it crawls
    rows = np.ascontiguousarray(x.cpu().numpy(), dtype=np.float32)
    labels, centers, distances = [], [], []
    for restart in range(n_restarts):
        engine = faiss.Kmeans(rows.shape[1], n_clusters, niter=n_iters, seed=FIRST_SEED + restart)
        engine.train(rows)
        distance, label = engine.index.search(rows, 1)
        labels.append(label[:, 0])
        centers.append(np.asarray(engine.centroids))
        distances.append(distance[:, 0])
    found = (torch.from_numpy(np.stack(parts)).to(x.device) for parts in (labels, centers, distances))
    own, middle, far = found
    square = x.square().sum(1)
    return Clusters(own, middle, (square - far) / 2, square.sum())
