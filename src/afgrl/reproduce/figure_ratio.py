"""The figure of neighbors with the same label: nearest by a random GCN, adjacent, and both."""

from __future__ import annotations

from functools import cache

import torch
from matplotlib.figure import Figure
from torch import Tensor

from afgrl.data import Dataset
from afgrl.methods.parts.positives import edge_keys
from afgrl.nn import GCN, gcn_inputs
from afgrl.ops.knn import nearest_neighbors
from afgrl.reproduce import paper, pictures
from afgrl.reproduce.layout import Column, Entry, Table
from afgrl.reproduce.result import Records, Result
from afgrl.reproduce.scope import Scope
from afgrl.runs.spec import RunSpec

SIZES = (4, 8, 16, 32, 64)
SERIES = ("nearest by a random GCN", "adjacent", "nearest and adjacent")
WIDTH = 128


def specs(scope: Scope) -> list[RunSpec]:
    return []


def result(scope: Scope, records: Records) -> Result:
    shares = {name: ratios(scope.dataset(name)) for name in scope.available(paper.DATASETS)}
    columns = [Column("dataset"), Column("k", 0), *(Column(name, 4) for name in SERIES)]
    rows: list[list[Entry]] = [
        [dataset, k, *row] for dataset, table in shares.items() for k, row in zip(SIZES, table, strict=True)
    ]
    notes = [
        *scope.missing_notes(paper.DATASETS),
        "The share of neighbors with the label of the node, averaged over the nodes that have such neighbors. The "
        "paper shows Computers and WikiCS and gives no numbers.",
    ]
    title = "Figure: share of neighbors with the same label"
    return Result(title, [Table(title, columns, rows)], {"ratio": lambda: _picture(shares)}, notes)


@cache
def ratios(dataset: Dataset) -> list[list[float]]:
    """For each k, the share among the nearest nodes, among the adjacent ones, and among those that are both."""
    graph, y = dataset.graph, torch.as_tensor(dataset.y)
    inputs = gcn_inputs(graph, to_sum_one=False)
    encoder = GCN([graph.n_features, WIDTH, WIDTH], "relu", "none", torch.Generator().manual_seed(0))
    with torch.no_grad():
        h = encoder(inputs)
    near = nearest_neighbors(h, h, min(max(SIZES), graph.n - 1), diagonal="drop").index  # [n, k]
    source, target = graph.edge_index
    adjacent = _mean_share((y[source] == y[target]).float(), source, torch.ones_like(source).bool(), graph.n)
    node = torch.arange(graph.n).unsqueeze(1).expand_as(near)
    same, joined = (y[near] == y[node]).float(), torch.isin(node * graph.n + near, edge_keys(graph))
    found = []
    for k in SIZES:
        part = (same[:, :k].reshape(-1), node[:, :k].reshape(-1))
        everything = torch.ones_like(part[1]).bool()
        both = _mean_share(*part, joined[:, :k].reshape(-1), graph.n)
        found.append([_mean_share(*part, everything, graph.n), adjacent, both])
    return found


def _mean_share(same: Tensor, node: Tensor, counts: Tensor, n: int) -> float:
    """The mean over nodes of the share of ``same`` among their neighbors for which ``counts`` is true."""
    total = torch.zeros(n).index_add_(0, node, counts.float())
    hits = torch.zeros(n).index_add_(0, node, same * counts)
    return float((hits / total)[total > 0].mean())


def _picture(shares: dict[str, list[list[float]]]) -> Figure:
    figure, axes = pictures.panels(len(shares))
    for ax, (dataset, table) in zip(axes, shares.items(), strict=True):
        for i, name in enumerate(SERIES):
            pictures.line(ax, i, SIZES, [row[i] for row in table], name)
        pictures.doubling(ax, SIZES)
        ax.set_title(dataset, fontsize=9)
        ax.set_xlabel("k", fontsize=8)
        ax.set_ylabel("same label", fontsize=8)
    pictures.legend(figure, 3)
    return figure
