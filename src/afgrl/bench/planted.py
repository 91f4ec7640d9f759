"""Random graphs of any size with planted classes, written as a folder of arrays (docs/scale.md).

Everything is drawn in blocks, each from its own generator, and blocks are written by several threads: the same
seed gives the same files, whatever the number of threads. Memory is that of the labels and of a few blocks.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from afgrl.data.formats.array_folder import EDGES, FEATURES, LABELS
from afgrl.errors import UserError

BLOCK_NODES, BLOCK_EDGES = 1 << 16, 1 << 20
# Parts of the random numbers of a seed.
CLASSES, MEANS, VECTORS, ENDS = range(4)


@dataclass(frozen=True)
class Planted:
    """A graph in which nodes of one class share features and edges."""

    nodes: int
    edges: int  # drawn; self-loops and repeated ones are dropped when the graph is read
    features: int = 128
    classes: int = 100
    within_class: float = 0.3  # share of edges whose ends have the same class; the others end anywhere
    # Standard deviation of the class means, relative to that of a node around its mean. k-means on the features of a
    # million nodes then finds a part of the classes only.
    separation: float = 0.2
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.classes <= self.nodes or self.edges < 0 or self.features < 1:
            raise UserError("A planted graph needs at least one feature, one class, and as many nodes as classes.")


def planted_graph(nodes: int, degree: float = 20.0, *, seed: int = 0) -> Planted:
    """A planted graph by its mean degree."""
    return Planted(nodes, round(nodes * degree / 2), classes=min(100, nodes), seed=seed)


def write_planted(graph: Planted, folder: Path, n_threads: int | None = None) -> None:
    """Write features.npy, edges.npy and labels.npy into a new folder."""
    folder.mkdir(parents=True)
    y = _generator(graph, CLASSES).integers(graph.classes, size=graph.nodes, dtype=np.int32)
    np.save(folder / LABELS, y)
    means = graph.separation * _generator(graph, MEANS).standard_normal(
        (graph.classes, graph.features), dtype=np.float32
    )
    members = np.argsort(y, kind="stable").astype(np.int32 if graph.nodes < 2**31 else np.int64)
    begin = np.searchsorted(y[members], np.arange(graph.classes + 1))

    def vectors(block: int, rows: slice) -> np.ndarray:
        own = y[rows]
        drawn = _generator(graph, VECTORS, block).standard_normal((len(own), graph.features), dtype=np.float32)
        drawn += means[own]
        return drawn

    def ends(block: int, rows: slice) -> np.ndarray:
        rng, count = _generator(graph, ENDS, block), rows.stop - rows.start
        source = rng.integers(graph.nodes, size=count)
        label = y[source]
        anywhere = rng.random(count) >= graph.within_class
        label[anywhere] = rng.integers(graph.classes, size=int(anywhere.sum()))
        low, size = begin[label], begin[label + 1] - begin[label]
        # The square makes some members of a class hubs: their degrees have a heavy tail.
        position = low + (rng.random(count) ** 2 * size).astype(np.int64)
        target = np.where(size > 0, members[np.minimum(position, graph.nodes - 1)], source)
        return np.stack([source, target], axis=1).astype(members.dtype)

    threads = n_threads or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else n_threads or 1
    with ThreadPoolExecutor(threads) as pool:
        _fill(pool, folder / FEATURES, (graph.nodes, graph.features), np.dtype(np.float32), BLOCK_NODES, vectors)
        _fill(pool, folder / EDGES, (graph.edges, 2), members.dtype, BLOCK_EDGES, ends)


def _generator(graph: Planted, part: int, block: int = 0) -> np.random.Generator:
    return np.random.default_rng([graph.seed, part, block])


def _fill(
    pool: ThreadPoolExecutor,
    file: Path,
    shape: tuple[int, int],
    dtype: np.dtype,
    block_rows: int,
    draw: Callable[[int, slice], np.ndarray],
) -> None:
    """Write an array block by block; each block has its place in the file."""
    header = np.lib.format.open_memmap(file, mode="w+", dtype=dtype, shape=shape)
    first, row_bytes = header.offset, shape[1] * dtype.itemsize
    del header
    with open(file, "r+b", buffering=0) as stream:
        descriptor = stream.fileno()

        def write(block: int) -> None:
            rows = slice(block * block_rows, min((block + 1) * block_rows, shape[0]))
            content, at = draw(block, rows).data.cast("B"), first + rows.start * row_bytes
            while content:
                written = os.pwrite(descriptor, content, at)
                content, at = content[written:], at + written

        list(pool.map(write, range(-(-shape[0] // block_rows))))
