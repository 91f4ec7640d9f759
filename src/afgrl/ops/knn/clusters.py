"""Approximate nearest neighbors by cosine in the nearest clusters only, for graphs too large to compare all pairs."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.errors import UserError
from afgrl.ops.collectives import ONE_PROCESS, Shards
from afgrl.ops.knn.exchange import exchange_neighbors
from afgrl.ops.knn.reference import BLOCK_BYTES, Diagonal, Neighbors
from afgrl.ops.knn.visitors import PROBES, Clustering, Groups, nearest_centers, too_few_keys
from afgrl.ops.sparse.stable import stable_product
from afgrl.ops.storage import filled_rows, goes_to_file, row_blocks
from afgrl.ops.svd import gram_matrix, leading_eigenvectors

WIDTH, ROWS = 128, 16_384  # of ``in_leading_directions``: columns, and rows from which they are computed
QUERIES = 1 << 20  # that are searched at once on a CPU: all keys are read once for each block of queries
# Of similarities. On a CPU they are read several times, so they should fit the cache.
CLUSTER_BLOCK_BYTES = {"cpu": 8 << 20, "cuda": BLOCK_BYTES["cuda"]}


def nearest_in_clusters(
    query: Tensor, key: Tensor, k: int, labels: Tensor, centers: Tensor, *, diagonal: Diagonal, probes: int = PROBES,
    shards: Shards = ONE_PROCESS,
) -> Neighbors:  # fmt: skip
    """As ``nearest_neighbors``, with row i of queries and keys belonging to node i, in ``probes`` clusters per query.

    Query i searches its own cluster ``labels[i]`` and those whose ``centers`` its direction is nearest to. If these
    clusters have fewer than k keys in total, it searches all clusters. With several processes, queries and keys are
    those of this one, and ``labels`` those of all nodes. Memory beside the answer: that of a block of queries.
    """
    if shards.distributed:
        return exchange_neighbors(query, key, k, diagonal, shards, Clustering(labels, centers, probes))
    n = len(labels)
    if query.shape != key.shape or labels.shape != (n,) or n != len(key):
        shapes = ", ".join(str(tuple(table.shape)) for table in (query, key, labels))
        raise UserError(f"Queries, keys and labels must have one row per node, but their shapes are {shapes}.")
    search = _Search(query, key, k, diagonal, labels.long(), len(centers))
    units = F.normalize(centers)
    for rows in row_blocks(n, query.device, QUERIES):
        search.block(rows, nearest_centers(query[rows], units, search.labels[rows], probes))
    if diagonal == "first":  # replaces the infinity that put it first
        for rows in row_blocks(n, query.device):
            search.similarity[rows, 0] = (F.normalize(query[rows]) * F.normalize(key[rows])).sum(1)
    return Neighbors(search.index, search.similarity)


class _Search:
    """The best keys of each query so far. Rows are scaled to unit length when they are compared, since tables of unit
    rows would take as much memory as the vectors."""

    def __init__(self, query: Tensor, key: Tensor, k: int, diagonal: Diagonal, labels: Tensor, n_clusters: int) -> None:
        self.query, self.key, self.k, self.diagonal, self.labels = query, key, k, diagonal, labels
        self.members = Groups.of(labels, n_clusters)
        self.sizes = torch.bincount(labels, minlength=n_clusters)
        # Keys in a file are read for each block of queries: by whole clusters, not row by row from everywhere.
        self.grouped_keys = self._group_keys() if goes_to_file(len(key), key.shape[1], key.device) else None
        self.index = torch.zeros(len(labels), k, dtype=torch.int64, device=query.device)
        self.similarity = query.new_full((len(labels), k), -torch.inf)
        # Of each node among the members of its cluster: where a query meets the key of the same node.
        begins = (self.sizes.cumsum(0) - self.sizes).repeat_interleave(self.sizes)
        position = torch.arange(len(labels), device=labels.device) - begins
        self.position = torch.empty_like(position).scatter_(0, self.members.rows, position)

    def block(self, rows: slice, nearest: Tensor) -> None:
        """Search the clusters ``nearest`` [b, probes] of a block of queries."""
        few = too_few_keys(nearest, self.sizes, self.k + (self.diagonal == "drop"))
        everywhere = rows.start + few.nonzero().squeeze(1)
        # Numbers of 32 bits: there are as many as probes, and their sort takes several times their memory.
        visited = nearest.int().masked_fill_(few.unsqueeze(1), len(self.sizes))  # sorted last, and not searched below
        numbers = torch.arange(rows.start, rows.start + len(nearest), dtype=torch.int32, device=nearest.device)
        visits = Groups.of(visited.flatten(), len(self.sizes) + 1, numbers.repeat_interleave(nearest.shape[1]))
        for cluster in range(len(self.sizes)):
            queries = visits.members(cluster)
            if len(everywhere):
                queries = torch.cat([queries, everywhere])
            members = self.members.members(cluster)
            if len(members) and len(queries):
                self._compare(cluster, queries, members)

    def _group_keys(self) -> Tensor:
        """Unit rows of all keys in the order of their clusters."""
        key, rows = self.key, self.members.rows
        return filled_rows(
            len(key), key.shape[1], key.device, lambda block: F.normalize(key.index_select(0, rows[block]))
        )

    def _keys_of(self, cluster: int, members: Tensor) -> Tensor:
        if self.grouped_keys is None:
            return F.normalize(self.key.index_select(0, members))
        end = self.members.ends[cluster]
        return self.grouped_keys[end - len(members) : end]

    def _compare(self, cluster: int, queries: Tensor, members: Tensor) -> None:
        keys, k = self._keys_of(cluster, members), min(self.k, len(members))
        for rows in queries.split(max(1, CLUSTER_BLOCK_BYTES[keys.device.type] // (4 * len(keys)))):
            cosine = F.normalize(self.query.index_select(0, rows)) @ keys.T
            if self.diagonal != "keep":
                own = (self.labels.index_select(0, rows) == cluster).nonzero().squeeze(1)
                at = self.position.index_select(0, rows.index_select(0, own))
                cosine[own, at] = torch.inf if self.diagonal == "first" else -torch.inf
            best = cosine.topk(k, dim=1)
            values = torch.cat([self.similarity.index_select(0, rows), best.values], 1)
            chosen = values.topk(self.k, dim=1)
            index = torch.cat([self.index.index_select(0, rows), members[best.indices]], 1)
            self.similarity.index_copy_(0, rows.long(), chosen.values)
            self.index.index_copy_(0, rows.long(), index.gather(1, chosen.indices))


def in_leading_directions(
    query: Tensor, key: Tensor, centers: Tensor, shards: Shards | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Unit queries, unit keys and centers, projected onto the 128 leading principal directions of the keys.

    A search among them takes a quarter of the time that 512 columns take. With several processes, queries and keys are
    those of this one.
    """
    if key.shape[1] <= WIDTH:
        return query, key, centers
    shards = shards or Shards(len(key))
    sample = F.normalize(key[shards.part_of(slice(0, shards.n, max(1, shards.n // ROWS)))])
    basis = leading_eigenvectors(gram_matrix([sample], shards), WIDTH).to(key.dtype)

    def projected(x: Tensor) -> Tensor:
        if shards.distributed:
            return stable_product(F.normalize(x), basis.T)
        return filled_rows(len(x), WIDTH, x.device, lambda rows: F.normalize(x[rows]) @ basis)

    return projected(query), projected(key), centers @ basis
