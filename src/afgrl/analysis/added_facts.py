"""What an addition stores about its nodes besides columns: the ids they are linked to, and their words or features."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from afgrl.analysis.new_nodes import NewNodes
from afgrl.analysis.traits import listed_traits
from afgrl.data import Dataset
from afgrl.graph import as_text
from afgrl.runs.added import LISTS


def linked_ids(new: NewNodes, rows: np.ndarray, ids: np.ndarray) -> pa.ChunkedArray:
    """For each of the new nodes in ``rows``, which get ``ids`` in the run, the ids of the nodes it is linked to."""
    names = as_text(new.graph.ids).copy()
    chosen = new.rows[rows]
    names[chosen] = ids
    source, target = new.graph.edge_index.cpu().numpy()
    links = sp.csr_array((np.ones(len(source), np.int8), (source, target)), shape=(new.graph.n, new.graph.n))
    return _lists(links[chosen], names)


def words_of_nodes(source: Dataset, ids: np.ndarray) -> pa.ChunkedArray:
    """For each id the names of the words or features that the node has."""
    truths, names = listed_traits(source)
    place = {node_id: row for row, node_id in enumerate(as_text(source.graph.ids))}
    return _lists(truths[[place[node_id] for node_id in as_text(ids)]], np.array(names, dtype=object))


def _lists(matrix: sp.csr_array, names: np.ndarray) -> pa.ChunkedArray:
    """The names of the columns with an entry in each row."""
    offsets, values = pa.array(matrix.indptr, pa.int32()), pa.array(names[matrix.indices], pa.string())
    return pa.chunked_array([pa.ListArray.from_arrays(offsets, values, type=LISTS)])
