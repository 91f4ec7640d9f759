"""Peak memory of training AFGRL on a graph of a given size."""

from __future__ import annotations

from afgrl.cost.batch_memory import FLOAT, INDEX, PARQUET, BatchMemory
from afgrl.cost.program import loaded_later
from afgrl.cost.workload import Workload
from afgrl.methods.afgrl import AFGRLSettings
from afgrl.methods.parts.embedder_settings import NodeEmbedderSettings
from afgrl.methods.parts.positive_settings import PositiveSettings
from afgrl.ops.knn import BLOCK_BYTES
from afgrl.ops.propagation import factored_bytes
from afgrl.ops.sparse.layout import COLUMN_MULTIPLE

GPU_WORKSPACE = 33 << 20  # of cuBLAS on Hopper
CPU_SLACK = 8 << 20  # buffers of threads
# glibc takes blocks below 32 MiB from its heap, and returns free memory at the end of the heap only beyond 64 MiB.
HEAP = 64 << 20


def peak_memory(settings: PositiveSettings, load: Workload, *, in_files: bool = False) -> int:
    """Peak bytes in use from the graph to the vectors, without the program itself and, on a CPU, without the graph."""
    if isinstance(settings, AFGRLSettings):
        return _full_batch_memory(settings, load)
    assert isinstance(settings, NodeEmbedderSettings)
    return BatchMemory(settings, load, in_files).peak() + (GPU_WORKSPACE if load.device == "cuda" else CPU_SLACK)


def needed_memory(settings: PositiveSettings, load: Workload, *, in_files: bool = False) -> int:
    """Bytes that a process needs from the graph it has read to the files of a run, in addition to those in use; with
    ``in_files``, the tables of training in batches are in temporary files."""
    peak = peak_memory(settings, load, in_files=in_files)
    if load.device == "cuda":
        return peak
    if isinstance(settings, AFGRLSettings):
        saving = _full_batch_save(settings, load)
    else:
        assert isinstance(settings, NodeEmbedderSettings)
        saving = BatchMemory(settings, load, in_files).save()
    return max(peak, saving) + min(peak, HEAP) + loaded_later()


def table_disk(settings: NodeEmbedderSettings, load: Workload) -> int:
    """The bytes of the temporary files, at most: what the tables take in memory otherwise."""
    in_memory, in_files = (BatchMemory(settings, load, in_files).stages() for in_files in (False, True))
    return max(every - rest for every, rest in zip(in_memory, in_files, strict=True))


def _full_batch_memory(settings: AFGRLSettings, load: Workload) -> int:
    n, d, width = load.n, settings.n_components, settings.predictor_width
    sparse = load.factored_nnz(settings.n_hops)
    table, graph, weights = _full_batch_inputs(settings, load)
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


def _full_batch_inputs(settings: AFGRLSettings, load: Workload) -> tuple[int, int, int]:
    """Bytes of the encoder's input, of the adjacency and of the weights."""
    n, d = load.n, settings.n_components
    inputs = load.n_features * (settings.n_hops + 1)
    if load.device == "cuda":
        inputs += -inputs % COLUMN_MULTIPLE
    sparse = load.factored_nnz(settings.n_hops)
    table = factored_bytes(load.nnz, load.n_edges + n, settings.n_hops) if sparse else n * inputs * FLOAT
    graph = (load.n_edges + n) * (INDEX + FLOAT) + load.n_edges * INDEX  # S, and the sorted edge keys
    # Parameters, gradients and the two moments of AdamW; the target, and a temporary copy of the first weights (padded,
    # or their gradient before accumulation).
    learned = inputs * d + 2 * d * settings.predictor_width
    return table, graph, FLOAT * (4 * learned + 2 * inputs * d)


def _full_batch_save(settings: AFGRLSettings, load: Workload) -> int:
    """The embedding and the writer's copy of it; then the weights of both networks as one string."""
    embedding = FLOAT * load.n * settings.n_components
    inputs = _full_batch_inputs(settings, load)
    return sum(inputs) + embedding + PARQUET + max(embedding, inputs[-1] // 2)
