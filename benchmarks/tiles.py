"""Times the k-NN and k-means kernels on this GPU for several tile sizes; the constants ``TILES`` come from it.

python -m benchmarks.tiles
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
import triton

from afgrl.ops.kmeans import triton as kmeans_triton
from afgrl.ops.knn.triton import Tiles, nearest_neighbors_triton

SHAPES = {"photo": (7650, 512, 4), "cs": (18333, 1024, 4), "physics": (34493, 256, 8)}
CANDIDATES = {
    "bf16": [
        Tiles(queries, keys, 64, warps, stages)
        for (queries, keys), warps, stages in itertools.product(
            [(64, 128), (128, 128), (64, 256), (128, 256)], [4, 8], [3]
        )
    ],
    "tf32": [Tiles(64, 128, 32, 4, 3), Tiles(128, 128, 32, 4, 3), Tiles(128, 128, 32, 8, 3), Tiles(128, 128, 32, 8, 4)],
    "float32": [Tiles(64, 64, 32, 4, 2), Tiles(64, 128, 32, 8, 2), Tiles(128, 128, 32, 8, 2)],
}


KMEANS = [
    {"assign_stages": 2},
    {"assign_rows": 64},
    {"assign_warps": 8},
    *(
        {"sum_rows": rows, "sum_columns": columns, "sum_programs": programs}
        for (rows, columns), programs in itertools.product([(64, 256), (64, 128), (32, 256), (128, 128)], [132, 264])
    ),
]


def time_knn() -> None:
    for precision, candidates in CANDIDATES.items():
        for tiles in candidates:
            cells = []
            for name, (n, d, k) in SHAPES.items():
                x = blobs(n, d)
                ms = median_ms(lambda x=x, k=k, t=tiles, p=precision: nearest_neighbors_triton(x, x, k, "first", p, t))
                cells.append(f"{name} {ms:.3f} ms {2e-9 * n * n * d / ms:.0f} TFLOP/s")
            print(precision, tiles, *cells, sep="  ", flush=True)


def time_kmeans() -> None:
    for options in [{}, *KMEANS]:
        cells = []
        for name, (n, d, _) in SHAPES.items():
            x = blobs(n, d)
            centers = x[torch.randint(n, (5, 100), device="cuda")]
            sizes = kmeans_triton.Tiles(**options)
            ms = median_ms(
                lambda x=x, c=centers, s=sizes: kmeans_triton.lloyd_triton(
                    x, c, 20, unit=True, precision="bf16", tiles=s
                )
            )
            cells.append(f"{name} {ms:.3f} ms")
        print("kmeans", options, *cells, sep="  ", flush=True)


def blobs(n: int, d: int) -> torch.Tensor:
    return torch.randn(n, d, device="cuda") + 2 * torch.randn(100, d, device="cuda")[torch.arange(n) % 100]


def median_ms(call: Callable[[], object]) -> float:
    """Measured with a CUDA graph, so that launching takes no time."""
    try:
        call()
    except triton.runtime.errors.OutOfResources:
        return float("nan")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return triton.testing.do_bench(graph.replay, warmup=10, rep=40, return_mode="median")


if __name__ == "__main__":
    time_kmeans()
    time_knn()
