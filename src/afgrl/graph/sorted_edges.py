"""Edges as sorted integers, ``source · n + target``, in little more memory than the result.

100 million edges are 3.2 GB as ``edge_index`` with both directions. Sorting works in place and everything else in
chunks, so that the most besides the given edges is that and a quarter: 20 bytes for each edge and direction.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

CHUNK = 1 << 20  # edges


def edge_keys(edges: np.ndarray, n: int, *, undirected: bool) -> np.ndarray:
    """The keys of edges [2, e] without self-loops, in the given order: [at most e] int64. With ``undirected``, both
    directions of an edge have the key of the one whose source is lower."""
    keys, filled = np.empty(edges.shape[1], dtype=np.int64), 0
    for part in chunks(edges.shape[1]):
        source, target = (end.astype(np.int64) for end in edges[:, part])
        found = (np.minimum(source, target) * n + np.maximum(source, target)) if undirected else source * n + target
        found = found[source != target]
        keys[filled : filled + len(found)] = found
        filled += len(found)
    return _shortened(keys, filled)


def sort_unique(keys: np.ndarray) -> np.ndarray:
    """Each key once, sorted. It takes the memory of ``keys``, which must not be used again."""
    keys.sort()
    filled, last = 0, None
    for part in chunks(len(keys)):
        block = keys[part]
        is_new = np.empty(len(block), dtype=bool)
        is_new[0] = last is None or block[0] != last
        np.not_equal(block[1:], block[:-1], out=is_new[1:])
        last = block[-1]
        found = block[is_new]
        keys[filled : filled + len(found)] = found
        filled += len(found)
    return _shortened(keys, filled)


def reversed_keys(keys: np.ndarray, n: int) -> np.ndarray:
    """The keys of the opposite directions."""
    return keys % n * n + keys // n


def edges_of(keys: np.ndarray, n: int, *, both_directions: bool) -> np.ndarray:
    """The edges of sorted keys, which have one direction of each if ``both_directions`` are wanted: [2, e] int64."""
    count = len(keys) * (2 if both_directions else 1)
    memory = np.empty(2 * count, dtype=np.int64)
    source, target = memory[:count], memory[count:]
    source[: len(keys)] = keys
    if both_directions:
        for part in chunks(len(keys)):
            source[len(keys) :][part] = reversed_keys(keys[part], n)
        source.sort()
    for part in chunks(count):  # the keys are in the place of the sources
        target[part] = source[part] % n
        source[part] //= n
    return memory.reshape(2, count)


def summed_weights(unique: np.ndarray, keys: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The sum of the weights of each of the sorted keys ``unique``, added in the order of ``keys``: [e] float64."""
    total = np.zeros(len(unique))
    for part in chunks(len(keys)):
        np.add.at(total, np.searchsorted(unique, keys[part]), weight[part])
    return total


def one_way_edges(keys: np.ndarray, n: int) -> tuple[int, int]:
    """How many different edges there are, and how many of them have no opposite direction. Takes the memory of
    ``keys``."""
    keys = sort_unique(keys)
    n_different = len(keys)
    for part in chunks(n_different):
        keys[part] = np.minimum(keys[part], reversed_keys(keys[part], n))
    # Of an edge in both directions, two keys became one.
    return n_different, 2 * len(sort_unique(keys)) - n_different


def chunks(n: int) -> Iterator[slice]:
    for start in range(0, n, CHUNK):
        yield slice(start, min(start + CHUNK, n))


def _shortened(values: np.ndarray, length: int) -> np.ndarray:
    values.resize(length, refcheck=False)  # gives the rest back without a copy
    return values
