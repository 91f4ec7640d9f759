"""Precomputed propagation of features over the graph, as in SGC and SIGN.

With one GCN layer and no augmentation ``S(XW) = (SX)W``: ``SX`` is computed once, so a training step passes no
messages, and the vector of a node depends on one row of ``SX`` only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import scipy.sparse as sp
import torch
from torch import Tensor

from afgrl.csr import csr_from_scipy, csr_to_scipy
from afgrl.graph import Graph
from afgrl.ops.collectives import Shards
from afgrl.ops.dispatch import is_fast
from afgrl.ops.propagation.adjacency import Adjacency, gcn_norm
from afgrl.ops.propagation.sharded import ShardedMatrix
from afgrl.ops.sparse import csr_multiplier
from afgrl.ops.sparse.batches import RowTable, SampledRows, SparseRows
from afgrl.ops.sparse.cpu import FactoredTable, Factors, factor
from afgrl.ops.sparse.layout import CSR_PRODUCT_COST, factored_product_is_faster, fastest_layout, is_dense_on_gpu
from afgrl.ops.sparse.rows import row_lengths, scale_rows, unit_rows, unit_sums
from afgrl.ops.storage import empty_rows, in_one_block, row_blocks

# Length of the rows of each block of a multi-hop input. With length 1, the Xavier weights of the encoder would change
# the embedding too little per step for the usual learning rates.
HOP_LENGTH = 10.0


@dataclass(frozen=True, eq=False)
class Propagated:
    """The input of an encoder: the propagated features for its first layer, and S for the layers after it."""

    x: (
        Tensor | FactoredTable | SparseRows | SampledRows
    )  # [n, f] SX, or [n, f · (h + 1)] [X | SX | … | SʰX] with rows of equal length in each block
    adjacency: Tensor  # [n, n] CSR: S = D^-1/2 (A + I) D^-1/2


def propagate(graph: Graph, n_hops: int = 0) -> Propagated:
    """The input of the first layer: ``SX`` for ``n_hops=0``, else ``[X | SX | … | SʰX]``.

    The rows of each block of a multi-hop input have the same length, so that no hop dominates. On a CPU, sparse
    features stay factored if that is faster; the result then supports the product with weights only.
    """
    adjacency = gcn_norm(graph)
    if graph.x.layout == torch.sparse_csr and not graph.x.is_cuda and is_fast():
        nnz = factored_nnz(graph.x.values().numel(), adjacency.values().numel(), n_hops)
        if factored_product_is_faster(nnz, (graph.n, graph.n_features * (n_hops + 1))):
            return Propagated(_factored(adjacency, graph.x, n_hops), adjacency)
    return Propagated(fastest_layout(_table(adjacency, features_for_products(graph), n_hops)), adjacency)


def factored_nnz(nnz: int, nnz_adjacency: int, n_hops: int) -> int:
    """Non-zeros of the factors of ``[X | SX | … | SʰX]``: X for each block, and S once per hop of the block."""
    return nnz + nnz_adjacency if n_hops == 0 else (n_hops + 1) * nnz + nnz_adjacency * n_hops * (n_hops + 1) // 2


def factored_bytes(nnz: int, nnz_adjacency: int, n_hops: int) -> int:
    """Memory of these factors in addition to X and S: four 32-bit indices per non-zero, and scaled values.

    All blocks share the indices of X and S. One block has scaled values of X, the others have scaled values of S.
    """
    return 4 * (nnz * (4 + (n_hops > 0)) + nnz_adjacency * (4 + n_hops))


def multi_hop_features(graph: Graph, n_hops: int) -> Tensor:
    """``[X | SX | … | SʰX]`` as a table, dense or CSR, with rows of equal length in each block; ``SX`` for 0 hops."""
    return fastest_layout(_table(gcn_norm(graph), features_for_products(graph), n_hops))


def row_table(x: Tensor, adjacency: Adjacency, n_hops: int | None, shards: Shards) -> RowTable:
    """``[X | SX | … | SʰX]`` as a table for batches of rows, with rows of equal length in each block.

    SX alone for 0 hops, X alone for None. ``x``, ``adjacency`` and the table have the rows of this process.

    Unlike in ``propagate``, the rows of X have unit length before propagation, so that each neighbor counts the same:
    on CS this gains .3 points. The table is dense on a GPU, and dense or sparse on a CPU, whichever is faster. On a GPU
    a sparse table of up to 16 GiB is made dense first: products with dense columns take a hundredth of the time of
    sparse products on the host. A larger one stays sparse.
    """
    n_columns = x.shape[1] * (n_hops + 1 if n_hops else 1)
    stays_sparse = x.is_cuda and not is_dense_on_gpu(shards.rows_each, n_columns)
    if x.layout == torch.sparse_csr and not stays_sparse and (x.is_cuda or _is_too_dense(x, shards)):
        x = x.to_dense()
    x = unit_rows(x)
    table = HOP_LENGTH * x if n_hops is None else _table(adjacency, x, n_hops)
    if table.layout != torch.sparse_csr:
        return RowTable.of(fastest_layout(table), shards)
    nnz = _total(table.values().numel(), table, shards)
    if not stays_sparse and not factored_product_is_faster(nnz, (shards.n, n_columns)):
        table = table.to_dense()
    return RowTable.of(table, shards)


def _is_too_dense(x: Tensor, shards: Shards) -> bool:
    """Whether CSR features are too dense for sparse products on a CPU."""
    return _total(int(x.values().count_nonzero()), x, shards) * CSR_PRODUCT_COST > shards.n * x.shape[1]


def _total(count: int, table: Tensor, shards: Shards) -> int:
    """Of all processes, so that they choose the same layout, on which the random numbers of dropout depend."""
    return int(shards.sum(torch.tensor([count], device=table.device)))


def feature_rows(graph: Graph, *, to_sum_one: bool) -> RowTable:
    """X as a table for batches of rows, dense or sparse like ``row_table``; ``to_sum_one`` scales its rows to sum 1."""
    x = unit_sums(graph.x) if to_sum_one else graph.x
    if x.is_cuda:
        return RowTable.of(fastest_layout(x))
    if x.layout == torch.sparse_csr and not factored_product_is_faster(x.values().numel(), (graph.n, graph.n_features)):
        x = x.to_dense()
    return RowTable.of(x)


def layer_input(graph: Graph, *, to_sum_one: bool) -> Tensor | FactoredTable:
    """X as the input of a layer, which is multiplied with weights; ``to_sum_one`` scales its rows to sum 1."""
    x = unit_sums(graph.x) if to_sum_one else graph.x
    if x.layout == torch.sparse_csr and not x.is_cuda:
        sparse = is_fast() and factored_product_is_faster(x.values().numel(), (graph.n, graph.n_features))
        return FactoredTable(((factor(x),),)) if sparse else x.to_dense()
    return fastest_layout(x)


def features_for_products(graph: Graph) -> Tensor:
    """X, made dense before propagation if it is too dense for CSR. On a GPU only the result is made dense."""
    too_dense = graph.x.layout == torch.sparse_csr and not graph.x.is_cuda and graph.density > 1 / CSR_PRODUCT_COST
    return graph.x.to_dense() if too_dense else graph.x


def _table(adjacency: Adjacency, x: Tensor, n_hops: int) -> Tensor:
    if n_hops == 0:
        return _hop(adjacency, x)
    if x.layout != torch.sparse_csr and not in_one_block(x.shape[0], x.device):
        return _filled_table(adjacency, x, n_hops)
    blocks = [x]
    for _ in range(n_hops):
        blocks.append(_hop(adjacency, blocks[-1]))
    return _concatenated([HOP_LENGTH * unit_rows(block) for block in blocks])


def _filled_table(adjacency: Adjacency, x: Tensor, n_hops: int) -> Tensor:
    """The same of many rows, without two further tables of that size: each block is written where it belongs."""
    (n, width), blocks = x.shape, n_hops + 1
    table = empty_rows(n, blocks * width, x.device, x.dtype)
    for i in range(blocks):
        x = _hop(adjacency, x) if i else x
        for rows in row_blocks(n, x.device):
            table[rows, i * width : (i + 1) * width] = HOP_LENGTH * unit_rows(x[rows])
    return table


def _factored(adjacency: Tensor, x: Tensor, n_hops: int) -> FactoredTable:
    """The same as products of S and X, which are much sparser than their products."""
    s_factor, x_factor = factor(adjacency), factor(x)
    if n_hops == 0:
        return FactoredTable(((s_factor, x_factor),))
    blocks: list[Factors] = [(replace(x_factor, values=(HOP_LENGTH * unit_rows(x)).values()),)]
    propagated = x
    for depth in range(1, n_hops + 1):
        propagated = _hop(adjacency, propagated)  # only for the lengths of its rows
        scaled = scale_rows(adjacency, HOP_LENGTH / row_lengths(propagated))
        blocks.append((replace(s_factor, values=scaled.values()), *[s_factor] * (depth - 1), x_factor))
    return FactoredTable(tuple(blocks))


def _hop(adjacency: Adjacency, x: Tensor) -> Tensor:
    if isinstance(adjacency, ShardedMatrix):
        return adjacency @ x
    if x.layout != torch.sparse_csr:
        product: Tensor = csr_multiplier(adjacency)(x) if x.is_cuda else adjacency @ x
        return product
    # SciPy multiplies two sparse matrices on any build; PyTorch needs MKL for that.
    return csr_from_scipy(csr_to_scipy(adjacency) @ csr_to_scipy(x)).to(x.device)


def _concatenated(blocks: list[Tensor]) -> Tensor:
    if blocks[0].layout != torch.sparse_csr:
        return torch.cat(blocks, dim=1)
    return csr_from_scipy(sp.hstack([csr_to_scipy(block) for block in blocks])).to(blocks[0].device)
