"""Dense or sparse: the one place that decides how a table is stored and multiplied."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.csr import csr_from_scipy, csr_tensor

# Bytes of a non-zero in CSR (float32 value, int64 column), and of an entry of a dense table.
CSR_BYTES, DENSE_BYTES = 12, 4
# Time of one non-zero in a product with weights on a CPU, relative to one entry of a dense table. With PyTorch's CSR
# product, CS (6.7 % non-zeros, a busy two-core machine) took 2.6 times as long as with the dense product; the limit is
# extrapolated from that one measurement.
CSR_PRODUCT_COST = 50
# The product of sparse factors (``cpu.py``), forward and backward on two cores: 11 to 13 on Cora, CiteSeer, CS, Physics
# and PubMed, since it reads scattered rows while the dense product runs at peak speed. (6 on Photo, whose weights fit
# the cache; its features are so dense that the dense product is faster anyway.)
FACTORED_PRODUCT_COST = 12
# On a GPU, sparse features are made dense up to this size: a product with dense rows is many times faster there, but
# the dense table of a large graph with many words does not fit.
MAX_DENSE_ON_GPU = 16 << 30  # bytes
# On a GPU, dense tables are padded with zero columns to a multiple of this: matrix units need aligned rows.
COLUMN_MULTIPLE = 8


def csr_is_smaller(nnz: int, shape: tuple[int, int]) -> bool:
    """Whether a table takes less memory in CSR than dense."""
    return CSR_BYTES * nnz < DENSE_BYTES * shape[0] * shape[1]


def csr_product_is_faster(nnz: int, shape: tuple[int, int]) -> bool:
    """Whether a table times weights is faster in CSR than dense, on a CPU."""
    return CSR_PRODUCT_COST * nnz <= shape[0] * shape[1]


def factored_product_is_faster(nnz: int, shape: tuple[int, int]) -> bool:
    """Whether factors with ``nnz`` non-zeros in total are faster than the dense table, on a CPU."""
    return FACTORED_PRODUCT_COST * nnz < shape[0] * shape[1]


def compact_features(features: Any) -> Tensor:
    """``features`` (SciPy sparse, array or dense tensor) as float32, in CSR if that is smaller: [n, f]."""
    sparse = sp.issparse(features)
    table: Any = features if sparse else np.asarray(features)
    if csr_is_smaller(int(table.nnz if sparse else np.count_nonzero(table)), table.shape):
        # SciPy knows neither float16 nor another byte order.
        return csr_from_scipy(table.astype(np.result_type(table.dtype, np.float32), copy=False))
    dense = table.toarray() if sparse else table
    return torch.from_numpy(np.ascontiguousarray(dense, dtype=np.float32))


def is_dense_on_gpu(n: int, n_columns: int) -> bool:
    """Whether a table of sparse features with this many rows and columns is made dense on a GPU."""
    return DENSE_BYTES * n * n_columns <= MAX_DENSE_ON_GPU


def prepared_features(x: Tensor) -> Tensor:
    """Features for products that are computed once: dense on a GPU, unless that table would be too large."""
    return x.to_dense() if x.is_cuda and is_dense_on_gpu(x.shape[0], x.shape[1]) else x


def fastest_layout(x: Tensor) -> Tensor:
    """The table in the layout whose product with weights is fastest: on a GPU always dense and padded."""
    n, f = x.shape
    if x.is_cuda:
        padding = -f % COLUMN_MULTIPLE
        if x.layout != torch.sparse_csr:
            return F.pad(x, (0, padding))
        # Padded while it is sparse, so that there is never a second dense table.
        return csr_tensor(x.crow_indices(), x.col_indices(), x.values(), (n, f + padding)).to_dense()
    if x.layout != torch.sparse_csr or csr_product_is_faster(x.values().numel(), (n, f)):
        return x
    return x.to_dense()
