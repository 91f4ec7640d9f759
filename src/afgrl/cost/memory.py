"""Peak memory of training AFGRL on a graph of a given size."""

from __future__ import annotations

from afgrl.cost.batches import BatchWork
from afgrl.cost.workload import Workload
from afgrl.methods.afgrl import AFGRLSettings
from afgrl.methods.parts.spectral import CHUNK_ROWS, N_HOPS
from afgrl.ops.knn import BLOCK_BYTES
from afgrl.ops.propagation import factored_bytes
from afgrl.ops.sparse.batches import CHUNK_BYTES
from afgrl.ops.sparse.layout import COLUMN_MULTIPLE
from afgrl.ops.svd import OVERSAMPLING

FLOAT, INDEX = 4, 8  # bytes
GPU_WORKSPACE = 33 << 20  # of cuBLAS on Hopper
CPU_SLACK = 8 << 20  # buffers of threads


def peak_memory(settings: AFGRLSettings, load: Workload) -> int:
    """Peak bytes in use from the graph to the vectors, without the program itself and, on a CPU, without the graph."""
    return _batch_memory(settings, load) if settings.in_batches else _full_batch_memory(settings, load)


def _full_batch_memory(settings: AFGRLSettings, load: Workload) -> int:
    n, d, width = load.n, settings.n_components, settings.predictor_width
    inputs = load.n_features * (settings.n_hops + 1)
    sparse = load.factored_nnz(settings.n_hops)
    if load.device == "cuda":
        inputs += -inputs % COLUMN_MULTIPLE
    table = factored_bytes(load.nnz, load.n_edges + n, settings.n_hops) if sparse else n * inputs * FLOAT
    graph = (load.n_edges + n) * (INDEX + FLOAT) + load.n_edges * INDEX  # S, and the sorted edge keys
    learned = inputs * d + 2 * d * width
    # Parameters, gradients and the two moments of AdamW; the target, and a temporary copy of the first weights (padded,
    # or their gradient before accumulation).
    weights = FLOAT * (4 * learned + 2 * inputs * d)
    if load.device == "cuda":
        # In the middle of the backward pass: five tables of width d and three of the predictor's width are saved
        # activations or gradients. The search leaves rows in two bytes, and partial sums of new centers.
        tables = FLOAT * n * (5 * d + 3 * width)
        search = 3 * n * d + 132 * 128 * 256 * FLOAT
        return table + graph + weights + tables + search + GPU_WORKSPACE
    # On a CPU every table is freed at once. Similarities are computed in blocks (ops/knn).
    back = FLOAT * n * (5 * d + 4 * width)
    search = FLOAT * n * (6 * d + 2 * width) + min(BLOCK_BYTES["cpu"], FLOAT * n * n)
    smoothing = 0 if sparse else table  # X and SX, before training
    return table + graph + max(weights + max(back, search), smoothing) + CPU_SLACK


def _batch_memory(settings: AFGRLSettings, load: Workload) -> int:
    work = BatchWork(settings, load, 1.0, 1.0)
    n, d = load.n, settings.encoder_width
    sparse = work.table_nnz
    columns = work.columns + (-work.columns % COLUMN_MULTIPLE if load.device == "cuda" else 0)
    table = sparse * (INDEX + FLOAT) if sparse else FLOAT * n * columns
    graph = (load.n_edges + n) * (INDEX + FLOAT) + load.n_edges * INDEX  # S, and the sorted edge keys
    fixed = FLOAT * (load.n_features * work.rank + (N_HOPS + 1) * work.rank * work.directions + work.parts * d)
    # Before training: blocks, scaled blocks, and the table they are joined to.
    making = (3 if settings.input == "features" and settings.n_hops else 1) * table
    weights = FLOAT * (4 * work.n_parameters + columns * d)  # with gradients and the two moments of Adam; the target
    pairs = n * settings.n_neighbors * (6 * INDEX + 2 * FLOAT)
    v, one = FLOAT * n * work.directions, FLOAT * n * d
    kept = table + weights + one + pairs + (v if settings.input == "svd" else 0)  # one: the pull of the targets
    refresh = 5 * one + pairs + min(BLOCK_BYTES[load.device], FLOAT * n * n)  # t, h, their unit rows, the new pull
    step = 2 * min(CHUNK_BYTES, FLOAT * n * (d + (0 if sparse else columns))) + FLOAT * columns * d
    parts = FLOAT * n * (2 * work.parts + settings.n_components)
    embed = one + (parts if settings.input == "svd" else max(_directions_memory(work), v + parts))
    training = kept + max(refresh, step, embed)
    preparing = 2 * FLOAT * work.n_parameters + max(making, _fit_memory(work) + table, _directions_memory(work))
    return graph + fixed + max(training, preparing) + (GPU_WORKSPACE if load.device == "cuda" else CPU_SLACK)


def _fit_memory(work: BatchWork) -> int:
    """Blocks before and after scaling; Gram matrices of chunks of rows, and their decomposition."""
    if not work.directions:
        return 0
    n, columns = work.load.n, (N_HOPS + 1) * work.rank
    chunks = -(-n // CHUNK_ROWS)
    blocks = FLOAT * n * columns
    workspace = 4 if 2 * (work.directions + OVERSAMPLING) >= columns else 1  # of a complete decomposition, or of few
    gram = FLOAT * (min(n, CHUNK_ROWS) * columns + (2 * chunks + workspace) * columns**2)
    return blocks + max(blocks, gram)


def _directions_memory(work: BatchWork) -> int:
    """The blocks and one product for each of them; then the products and their stack."""
    columns = (N_HOPS + 1) * max(work.rank + work.directions, 2 * work.directions)
    return FLOAT * work.load.n * columns if work.directions else 0
