"""Whether features are still those of a training."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from afgrl.data.dataset import Dataset


def digest(dataset: Dataset) -> str:
    """Of what the features are made of: the cells of a user's table but for the label, as they are written, since the
    numbers made of them differ by rounding from machine to machine; else of the features themselves."""
    total = hashlib.sha256()
    reading = dataset.reading
    if reading is not None and reading.encoder is not None:
        for name in reading.columns.column_names:
            if name not in ("id", reading.label):
                total.update(name.encode())
                _add_cells(total, reading.columns[name])
    else:
        for part in arrays_of(dataset.graph.x):
            total.update(np.ascontiguousarray(part).tobytes())
    return total.hexdigest()[:16]


def arrays_of(x: Tensor) -> tuple[Tensor, ...]:
    """What features, dense or CSR, are stored as."""
    return (x.crow_indices(), x.col_indices(), x.values()) if x.layout == torch.sparse_csr else (x,)


def _add_cells(total: hashlib._Hash, column: pa.ChunkedArray) -> None:
    try:
        text = pc.cast(column, pa.large_string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):  # lists
        text = pa.chunked_array([pa.array(map(str, column.to_pylist()), pa.large_string())])
    missing = text.is_null().to_numpy()
    sizes = pc.binary_length(text).fill_null(0).to_numpy()
    total.update(missing.tobytes() + sizes.astype(np.int64).tobytes())
    for chunk in text.fill_null("").chunks:
        _, ends, letters = chunk.buffers()
        if letters is not None:  # a chunk may be a part of longer buffers
            place = np.frombuffer(ends, np.int64)[[chunk.offset, chunk.offset + len(chunk)]]
            total.update(memoryview(letters)[slice(*place)])
