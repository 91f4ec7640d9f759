"""Time of training AFGRL in batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from afgrl.cost.workload import Workload, neighbor_operations
from afgrl.methods.parts.batch_inputs import svd_width
from afgrl.methods.parts.embedder_settings import NodeEmbedderSettings
from afgrl.methods.parts.positive_search import kmeans_rows
from afgrl.methods.parts.spectral import N_HOPS, spectral_rank
from afgrl.ops.knn.clusters import WIDTH as SEARCH_WIDTH
from afgrl.ops.propagation.columns import PPR_STEPS
from afgrl.ops.svd import N_ITERS, OVERSAMPLING, rows_to_fit

# Shares of the rate of large matrix products that each kind of work reaches. They were measured with the settings in
# tests/cost/test_batches.py on Cora, Photo, CS and PubMed, as CPU time on one core of a shared machine (90 GFLOP/s):
# other processes disturb it less than wall time. Products with dense tables .8 to .9, neighbors with their selection
# .55 to .63.
DENSE, NEIGHBORS = 0.85, 0.6
# k-means skips products that cannot change a label, and stops when no label changes: .8 (PubMed) to 2.2 (Photo) times
# as fast as all of its products.
CLUSTERS = 1.1
# QR of [1433, 544] and [6805, 544] .64 and .43, eigenvectors of 544 and 2,048 columns .80 and .74 (9 c³ operations).
FACTORIZATION = 0.6
# Sparse rows times weights, forward and weight gradient: .40 for 1,500 input columns; .26 for 4,299 and .18 for 13,610,
# where the 64 columns of the weights that are multiplied at once exceed the L2 cache.
SPARSE_IN_CACHE, SPARSE = 0.4, 0.22
MOST_ROWS_IN_CACHE = 4096
PROPAGATION = 0.05  # three hops of 512 columns: .03 (PubMed) to .25 (Photo)
DIFFUSION = 0.1  # ten steps of PageRank, whose columns stay in the cache
# Absolute times, since one thread or memory limits them: taking a stored entry of a sparse row into a batch (with
# dropout and the transpose 20 to 22 ns), an entry of a dense row with dropout, a multiplication of SciPy's S·X with the
# scaling and joining of its blocks, updating a parameter (Adam .5 to .7 ns, EMA .1 to .3 ns), and what a refresh does
# with each entry of the encoder's output besides products (44 to 64 ns: unit rows, selection, the table of the loss).
SPARSE_ENTRY, DENSE_ENTRY, SCIPY_PRODUCT, PARAMETER, REFRESHED_ENTRY = 21e-9, 7e-9, 30e-9, 0.9e-9, 50e-9
CPU_STEP = 5e-3  # seconds of a step that do not depend on the size of its tables
FIRST_USE = 1.5  # seconds to load the parts of PyTorch that the optimizer needs
# On an H200 a step on CS takes .35 ms, a refresh 15 ms, the preparation .3 s; smaller graphs are hardly faster, since
# launching kernels and small decompositions take the time. Compiling kernels on first use is not included.
GPU_SHARE, GPU_STEP, GPU_REFRESH, GPU_PREPARATION = 0.35, 0.3e-3, 15e-3, 0.3


class BatchSeconds(NamedTuple):
    """The time of each part of training in batches."""

    preparation: float
    step: float
    refresh: float
    embedding: float  # from the trained encoder to the vectors

    def total(self, settings: NodeEmbedderSettings) -> float:
        refreshes = -(-settings.steps // settings.refresh_every)
        return self.preparation + settings.steps * self.step + refreshes * self.refresh + self.embedding


def batch_seconds(settings: NodeEmbedderSettings, load: Workload, rates: dict[str, float]) -> BatchSeconds:
    """Estimated times, from the operations per second of large matrix products (``matmul_rates``)."""
    return BatchWork(settings, load, rates["train"], rates["search"]).seconds()


def svd_seconds(n_components: int, load: Workload, rates: dict[str, float]) -> float:
    """Estimated time of the method svd, which does not train."""
    settings = NodeEmbedderSettings.model_construct(input="features", skip="svd", n_components=n_components)
    work = BatchWork(settings, load, rates["train"], rates["search"])
    return max(work.fit() + work.project(), GPU_PREPARATION if load.device == "cuda" else 0)


@dataclass(frozen=True)
class BatchWork:
    """Work of each part, in seconds on a device that multiplies matrices at the given rates."""

    settings: NodeEmbedderSettings
    load: Workload
    rate: float
    search_rate: float

    def seconds(self) -> BatchSeconds:
        found = BatchSeconds(self.prepare(), self.step(), self.refresh(), self.embed())
        if self.load.device != "cuda":
            return found
        least = BatchSeconds(GPU_PREPARATION, GPU_STEP, GPU_REFRESH, GPU_REFRESH)
        return BatchSeconds(*map(max, found, least))

    @property
    def columns(self) -> int:
        """Columns of the encoder's input."""
        if self.settings.input == "svd":
            return min(svd_width(self.load.n), self.directions)
        return self.load.n_features * (1 if self.settings.input == "own" else self.settings.n_hops + 1)

    @property
    def rank(self) -> int:
        return spectral_rank(self.load.n, self.load.n_features)

    @property
    def directions(self) -> int:
        """Columns of V; 0 if it is not computed."""
        from_input = svd_width(self.load.n) if self.settings.input == "svd" else 0
        from_skip = self.settings.n_components if self.settings.skip != "none" else 0
        return min(max(from_input, from_skip), (N_HOPS + 1) * self.rank)

    @property
    def parts(self) -> int:
        """Columns of all parts of the embedding; 0 if there is only the encoder's output."""
        n_untrained = {"none": 0, "svd": 1, "svd+ppr": 2}[self.settings.skip]
        untrained = n_untrained * min(self.settings.n_components, self.directions)
        return untrained + self.settings.encoder_width if n_untrained else 0

    @property
    def table_nnz(self) -> int:
        """Stored entries of a sparse table; 0 if it is dense."""
        if self.settings.input == "own":
            return self.load.own_table_nnz()
        return self.load.row_table_nnz(self.settings.n_hops) if self.settings.input == "features" else 0

    @property
    def n_parameters(self) -> int:
        return (
            self.columns * self.settings.encoder_width + 2 * self.settings.encoder_width * self.settings.predictor_width
        )

    def prepare(self) -> float:
        first = 0.0 if self.load.device == "cuda" else FIRST_USE
        return first + self._table() + (self.fit() if self.directions else 0.0)

    def step(self) -> float:
        settings, b = self.settings, min(self.settings.batch_size, self.load.n)
        if nnz := self.table_nnz:
            kept = (1 - settings.dropout) * b * nnz / self.load.n
            taken = SPARSE_ENTRY * b * nnz / self.load.n
            product = self._sparse(2 * kept * settings.encoder_width)
        else:
            taken = DENSE_ENTRY * b * self.columns if settings.dropout else 0.0
            product = self._dense(2 * b * self.columns * settings.encoder_width)
        predictor = self._dense(3 * 2 * b * settings.encoder_width * settings.predictor_width * 2)
        on_cpu = CPU_STEP + taken + PARAMETER * self.n_parameters if self.load.device == "cpu" else 0.0
        return 2 * product + predictor + on_cpu  # the product with the input and the gradient of the weights

    def refresh(self) -> float:
        """Both encoders on all rows, neighbors, and k-means."""
        settings, n = self.settings, self.load.n
        width = settings.encoder_width
        in_clusters = settings.searches_clusters(n, torch.device(self.load.device))
        searched = neighbor_operations(settings, self.load)
        if in_clusters and width > SEARCH_WIDTH:
            searched = searched * SEARCH_WIDTH // width
        clusters = 0.0
        if settings.needs_clusters:
            # Iterations on some of the rows, and one assignment of all.
            rows = len(range(n)[kmeans_rows(n, settings)]) * settings.kmeans_iters + n
            products = 2 * rows * settings.n_restarts * min(settings.n_clusters, n) * width
            clusters = products / self._share(CLUSTERS)
        on_cpu = REFRESHED_ENTRY * n * width if self.load.device == "cpu" else 0.0
        return 2 * self._encode() + (searched / self._share(NEIGHBORS) + clusters) / self.search_rate + on_cpu

    def embed(self) -> float:
        """The encoder on all rows, the vectors without training, and the projection of all parts."""
        n, d, parts = self.load.n, self.settings.n_components, self.parts
        if not parts:
            return self._encode()
        columns = min(d, self.directions)
        diffusion = PPR_STEPS * self._propagation(columns, DIFFUSION) if self.settings.skip == "svd+ppr" else 0.0
        project = 0.0 if self.settings.input == "svd" else self.project()  # V is the input "svd"
        return (
            self._encode()
            + project
            + diffusion
            + self._eigenvectors(parts, d)
            + self._dense(2 * parts * (self._rows_to_fit * parts + n * d))
        )

    def fit(self) -> float:
        """``SpectralFeatures.fit``: the basis of the features, and the directions of their hops."""
        columns = (N_HOPS + 1) * self.rank
        gram = self._dense(2 * self._rows_to_fit * columns**2)
        basis = self._basis() if self.load.n_features > self.rank else 0.0
        return basis + self._blocks() + gram + self._eigenvectors(columns, self.directions)

    def project(self) -> float:
        """V of all rows."""
        return self._blocks() + self._dense(2 * self.load.n * (N_HOPS + 1) * self.rank * self.directions)

    def _basis(self) -> float:
        width, f = self.rank + OVERSAMPLING, self.load.n_features
        products = (2 * N_ITERS + 1) * self._features_product(width)
        small = self._dense(2 * self.load.n * width**2 + 2 * f * width * self.rank)
        return products + small + self._factorization(N_ITERS * 4 * f * width**2 + 9 * width**3)

    def _blocks(self) -> float:
        product = self._features_product(self.rank) if self.load.n_features > self.rank else 0.0
        return product + N_HOPS * self._propagation(self.rank)

    def _eigenvectors(self, columns: int, rank: int) -> float:
        """``leading_eigenvectors``: a complete decomposition, or six iterations on few columns."""
        width = rank + OVERSAMPLING
        if 2 * width >= columns:
            return self._factorization(9 * columns**3)
        iteration = self._dense(2 * columns**2 * width) + self._factorization(4 * columns * width**2)
        return 2 * N_ITERS * iteration + self._factorization(9 * width**3)

    def _table(self) -> float:
        if self.settings.input == "svd":
            return self.project() - self._blocks()  # which ``fit`` has computed
        if self.settings.input == "own":
            return 0.0
        hops = max(self.settings.n_hops, 1)
        if self.load.device == "cuda" or not self.table_nnz:
            return hops * self._propagation(self.load.n_features)
        per_row = (self.load.n_edges + self.load.n) / self.load.n  # each entry of a hop is a sum over neighbors
        return SCIPY_PRODUCT * hops * per_row * self.table_nnz / (self.settings.n_hops + 1)

    def _encode(self) -> float:
        if nnz := self.table_nnz:
            return SPARSE_ENTRY * nnz + self._sparse(2 * nnz * self.settings.encoder_width)
        return self._dense(2 * self.load.n * self.columns * self.settings.encoder_width)

    def _features_product(self, width: int) -> float:
        """X times ``width`` columns; dense on a GPU."""
        f = self.load.n_features
        if self.load.device == "cpu" and self.load.nnz < self.load.n * f:
            return 2 * self.load.nnz * width / (self.rate * _sparse_share(f))
        return self._dense(2 * self.load.n * f * width)

    @property
    def _rows_to_fit(self) -> int:
        return len(range(self.load.n)[rows_to_fit(self.load.n)])

    def _propagation(self, width: int, share: float = PROPAGATION) -> float:
        return 2 * (self.load.n_edges + self.load.n) * width / (self.rate * share)

    def _sparse(self, operations: float) -> float:
        return operations / (self.rate * _sparse_share(self.columns))

    def _dense(self, operations: float) -> float:
        return operations / (self.rate * self._share(DENSE))

    def _factorization(self, operations: float) -> float:
        return operations / (self.rate * self._share(FACTORIZATION))

    def _share(self, on_cpu: float) -> float:
        return on_cpu if self.load.device == "cpu" else GPU_SHARE


def _sparse_share(columns: int) -> float:
    return SPARSE_IN_CACHE if columns <= MOST_ROWS_IN_CACHE else SPARSE
