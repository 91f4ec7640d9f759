"""The smaller of two layouts for a table of features."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from afgrl.csr import csr_from_scipy

# A non-zero takes 12 bytes in CSR (float32 value, int64 column), an entry of a dense table 4.
SPARSE_BELOW = 1 / 3


def compact(features: Any) -> Tensor:
    """``features`` (scipy sparse, array or dense tensor) as float32, CSR where that is smaller: [n, f]."""
    sparse = sp.issparse(features)
    table: Any = features if sparse else np.asarray(features)
    n_values = table.nnz if sparse else np.count_nonzero(table)
    if n_values < SPARSE_BELOW * table.shape[0] * table.shape[1]:
        return csr_from_scipy(table)
    dense = table.toarray() if sparse else table
    return torch.from_numpy(np.ascontiguousarray(dense, dtype=np.float32))
