"""Peak memory of training AFGRL in batches: what methods/node_embedder.py holds at each stage, table by table.

A table is [n, columns] float32. Every stage was compared with the resident memory of a run, stage by stage.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from afgrl.cost.batches import BatchWork
from afgrl.cost.workload import Workload
from afgrl.methods.node_embedder import CALIBRATION_ROWS, ROWS_AT_ONCE
from afgrl.methods.parts.embedder_settings import NodeEmbedderSettings
from afgrl.methods.parts.spectral import CHUNK_ROWS, HUGE, N_HOPS
from afgrl.ops.knn import BLOCK_BYTES
from afgrl.ops.knn.clusters import QUERIES
from afgrl.ops.knn.clusters import WIDTH as SEARCH_WIDTH
from afgrl.ops.knn.partition import FINE_PROBES
from afgrl.ops.knn.visitors import PROBES
from afgrl.ops.sparse.batches import CHUNK_BYTES
from afgrl.ops.sparse.cpu import COLUMNS
from afgrl.ops.sparse.layout import COLUMN_MULTIPLE
from afgrl.ops.svd import OVERSAMPLING, rows_to_fit

FLOAT, INDEX = 4, 8  # bytes
# Of a candidate pair: row, column, both of the transpose, value, kind and whether it is positive.
PAIR = 4 * INDEX + FLOAT + 2
# Of cuBLAS for the two further streams that training uses: that of captured graphs and that of k-means.
STREAM_WORKSPACES = 65 << 20
PARTIAL_SUMS = 20 << 20  # of new centers, and other buffers of kernels
PARQUET = 50 << 20  # buffers of the writer, also for the smallest embedding


@dataclass(frozen=True)
class BatchMemory:
    """Bytes of each stage, without the program and, on a CPU, without the graph."""

    settings: NodeEmbedderSettings
    load: Workload
    in_files: bool = False  # tables are in temporary files, and only blocks of them are in memory

    @property
    def work(self) -> BatchWork:
        return BatchWork(self.settings, self.load, 1.0, 1.0)

    def peak(self) -> int:
        """From the graph to its vectors."""
        prepared, refreshed, embedded = self.stages()
        return max(prepared, refreshed, embedded + self._products()) + self._chunks()

    def stages(self) -> tuple[int, int, int]:
        """Prepare, refresh and embed, without the buffers that tables in files need."""
        prepared = self.model() + self.adjacency() + self.prepare()
        return prepared, self.trained() + self.refresh(), self.trained() + self.embed()

    def trained(self) -> int:
        """What stays after training."""
        return self.model() + self.adjacency() + self.table() + self.kept()

    # What stays

    def model(self) -> int:
        """Online and target network, and the fitted projections."""
        work = self.work
        networks = work.n_parameters + work.columns * self.settings.encoder_width
        basis = self.load.n_features * work.rank if self.load.n_features > work.rank else 0
        rotation = (N_HOPS + 1) * work.rank * work.directions
        return FLOAT * (networks + basis + rotation + work.parts * self.settings.n_components)

    def adjacency(self) -> int:
        """S, and the sorted edge keys; on a GPU also the graph itself."""
        entries = self.load.n_edges + self.load.n
        normalized = entries * (INDEX + FLOAT) + self.load.n_edges * INDEX
        if self.load.device == "cpu":
            return normalized
        stored = FLOAT if self._is_dense else INDEX + FLOAT
        return normalized + 2 * INDEX * self.load.n_edges + stored * self.load.nnz

    def table(self) -> int:
        """The input of the encoder; V, which the input "svd" comes from, stays too, of a huge graph only the columns
        that the embedding has."""
        if nnz := self.work.table_nnz:
            return nnz * (INDEX + FLOAT)
        from_directions = self.work.directions if self.settings.input == "svd" else 0
        if self.load.n > HUGE:
            from_directions = min(from_directions, self.settings.n_components)
        return self._table(self._columns + from_directions)

    def kept(self) -> int:
        """Between refreshes: gradients and the two moments of Adam, centers, and the pull of the targets."""
        centers = self.settings.n_restarts * self._n_clusters * self.settings.encoder_width
        kept = FLOAT * (3 * self.work.n_parameters + centers) + self._encoded
        return kept + (STREAM_WORKSPACES if self.load.device == "cuda" else 0)

    # What each stage adds

    def prepare(self) -> int:
        """From the graph to the calibrated networks."""
        settings, work, n = self.settings, self.work, self.load.n
        table = self.table()
        rows = min(n, CALIBRATION_ROWS)
        widest = max(settings.encoder_width, settings.predictor_width)
        # The rows of the table, and four tables of activations: a sum, a norm, an activation, and their input.
        calibrate = table + FLOAT * rows * (4 * widest + (0 if work.table_nnz else self._columns))
        if settings.input == "svd":
            # Normalized directions, before they are scaled to the table; those of a huge graph are scaled in place.
            normalized = 0 if n > HUGE else self._table(self._columns)
            return max(self._fit(), table + normalized, calibrate)
        return max(self._make_table(), table + self._fit(), calibrate)

    def refresh(self) -> int:
        """The most of four moments, each with the encoded targets and online vectors."""
        settings, n, encoded = self.settings, self.load.n, self._encoded
        if self.load.device == "cuda":
            # Both, and either the unit rows of k-means and of the search, or the three tables of the pull; kernels
            # make no block of similarities.
            return 6 * encoded + PAIR * self._n_pairs + PARTIAL_SUMS
        # Chunks of rows: the product with the weights, and its activation.
        chunk = 2 * min(CHUNK_BYTES, encoded)
        labels = INDEX * settings.n_restarts * n if settings.needs_clusters else 0
        # k-means on unit rows: labels, scores and bounds of each restart, and the sorted members of all clusters.
        cluster = encoded + 6 * labels if settings.needs_clusters else 0
        if settings.searches_clusters(n, torch.device(self.load.device)):
            search = self._search_in_clusters()
        else:
            search = 2 * encoded + min(BLOCK_BYTES[self.load.device], FLOAT * n * n)  # unit rows of both
        pull = 3 * encoded  # unit targets, and the sums of both directions of a pair
        pairs = PAIR * self._n_pairs
        filtered = 2 * labels // n * self._n_pairs  # the labels of both ends of each pair
        return 2 * encoded + labels + max(chunk, cluster, search, pairs + filtered, pairs + pull)

    def _search_in_clusters(self) -> int:
        """Leading columns of both tables; the answer; members and positions of all clusters while they are sorted; and
        the visits of a block of queries, likewise."""
        settings, n = self.settings, self.load.n
        projected = 2 * self._table(SEARCH_WIDTH) if settings.encoder_width > SEARCH_WIDTH else 0
        probes = FINE_PROBES if n > HUGE else PROBES
        visits = 3 * INDEX * probes * min(n, QUERIES)
        return projected + (INDEX + FLOAT) * self._n_pairs + 5 * INDEX * n + visits

    def embed(self) -> int:
        """The encoder's output; vectors without training; all parts beside each other, and their projection."""
        work, settings, encoded = self.work, self.settings, self._encoded
        if not work.parts:
            return 2 * encoded
        untrained = work.parts - settings.encoder_width
        new_directions = 0 if settings.input == "svd" else work.directions
        diffused = 2 * min(settings.n_components, work.directions) if settings.skip == "svd+ppr" else 0
        blocks = 0 if settings.input == "svd" else self._blocks()
        joined = settings.encoder_width + new_directions + untrained + settings.n_components
        # The trained part scaled, and all parts beside each other; of a huge graph for some rows at a time.
        rows = min(self.load.n, ROWS_AT_ONCE) if self.load.n > HUGE else self.load.n
        in_rows = FLOAT * rows * (settings.encoder_width + work.parts)
        gram = (5 if self.load.device == "cuda" else 2) * FLOAT * work.parts**2
        return max(encoded + blocks, encoded + self._table(new_directions + untrained + diffused),
                   self._table(joined) + in_rows + gram)  # fmt: skip

    def save(self) -> int:
        """The embedding with what it was computed from, while it is written; then the weights as one string."""
        work, settings = self.work, self.settings
        untrained = work.parts - settings.encoder_width if work.parts else 0
        new_directions = 0 if settings.input == "svd" else work.directions
        held = self._table(new_directions + untrained + settings.n_components)
        written = max(self._table(settings.n_components), 2 * self.model())
        return self.trained() + self._chunks() + held + PARQUET + written

    def _make_table(self) -> int:
        """[X | SX | …]: the blocks, the scaled blocks, and the table they are joined to. Sparse ones are joined by
        SciPy, whose result is copied."""
        if self.settings.input == "own":
            return 2 * self.table()
        return (4 if self.work.table_nnz else 3) * self.table()

    def _fit(self) -> int:
        """The basis of the features, blocks before and after scaling, Gram matrices of chunks of rows, their
        decomposition, and V if it is the input."""
        work = self.work
        if not work.directions:
            return 0
        n, columns = self.load.n, (N_HOPS + 1) * work.rank
        n_rows = len(range(n)[rows_to_fit(n)])
        chunks = -(-n_rows // CHUNK_ROWS)
        few = 2 * (work.directions + OVERSAMPLING) < columns
        gram = FLOAT * (min(n_rows, CHUNK_ROWS) * columns + (2 * chunks + 1) * columns**2)
        decomposition = FLOAT * (2 if few else 5) * columns**2
        rotated = self._table(work.directions) if self.settings.input == "svd" else 0
        return max(self._blocks(), self._table(columns) + max(gram, decomposition, rotated))

    def _blocks(self) -> int:
        """X with unit rows, and four blocks of its projection."""
        blocks = self._table((N_HOPS + 1) * self.work.rank)
        if self.load.device == "cpu":
            in_blocks = self.in_files and self._is_dense and self.load.n_features <= self.work.rank
            return blocks + (0 if in_blocks else FLOAT * self.load.nnz)
        x = self._table(self.load.n_features)  # made dense, then scaled; without a projection, it is the first block
        return max(2 * x, blocks + (x if self.load.n_features > self.work.rank else 0))

    @property
    def _is_dense(self) -> bool:
        return self.load.nnz == self.load.n * self.load.n_features

    @property
    def _columns(self) -> int:
        """Columns of a dense input."""
        return self.work.columns + (-self.work.columns % COLUMN_MULTIPLE if self.load.device == "cuda" else 0)

    @property
    def _n_clusters(self) -> int:
        return min(self.settings.n_clusters, self.load.n) if self.settings.needs_clusters else 0

    @property
    def _n_pairs(self) -> int:
        return self.load.n * min(self.settings.n_neighbors, self.load.n)

    @property
    def _encoded(self) -> int:
        """A table of the encoder's width."""
        return self._table(self.settings.encoder_width)

    def _table(self, columns: int) -> int:
        return 0 if self.in_files else FLOAT * self.load.n * columns

    def _products(self) -> int:
        """With tables in files: the columns of three tables that pass through all products of PageRank together."""
        return FLOAT * 3 * COLUMNS * self.load.n if self.in_files else 0

    def _chunks(self) -> int:
        """With tables in files: rows that are computed at once."""
        return 2 * CHUNK_BYTES if self.in_files else 0
