"""Vectors of new nodes by the trained method of a run, without training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from afgrl.data import Dataset, load
from afgrl.data.files import load_files
from afgrl.data.formats.graph_files import WITHOUT_IDS
from afgrl.data.join import join_graphs
from afgrl.data.sources import names
from afgrl.data.unpacking import home_expanded
from afgrl.errors import UserError
from afgrl.experiment.model import load_method
from afgrl.graph import Graph, as_text
from afgrl.runs.folder import Run


@dataclass(frozen=True, eq=False)
class NewNodes:
    ids: np.ndarray  # [m]
    vectors: np.ndarray  # [m, d] float32
    source: Dataset  # what was read; it may have more nodes than these
    graph: Graph  # what was embedded: the source, or the training graph joined with it
    rows: np.ndarray  # [m] the nodes in that graph
    joined: bool  # whether equal ids of the source and the run are the same node

    @property
    def columns(self) -> pa.Table | None:
        """``id`` and the columns of all nodes of the source; None if it has only features."""
        return None if self.source.ingested is None else self.source.ingested.columns

    @property
    def numbered(self) -> bool:
        """Whether the ids are row numbers of the source."""
        return self.source.ingested is not None and self.source.ingested.numbered


def embed_dataset(run: Run, dataset: Dataset, device: torch.device) -> Tensor:
    """The vectors of all nodes of a dataset: [n, d]."""
    method = load_method(run, device)
    if dataset.graph.n_features != method.size.n_features:
        raise UserError(
            f"The run {str(run.path)!r} was trained on {method.size.n_features} features, "
            f"but {dataset.name!r} has {dataset.graph.n_features}."
        )
    return method.embed_graph(dataset.graph.to(device))


def embed_new_nodes(
    run: Run,
    source: str,
    device: torch.device,
    *,
    data_dir: str | None = None,
    alone: bool = False,
    message: Callable[[str], Any] = lambda sentence: None,
) -> NewNodes:
    """The nodes of ``source`` with their vectors. Columns become features as they did in training.

    If the source refers to nodes of the training graph by id, the two graphs are joined, unless ``alone``.
    """
    if source in names():
        dataset = load(source, data_dir=data_dir)
        return _new_nodes(dataset, embed_dataset(run, dataset, device))
    trained = run.dataset(data_dir)
    table_encoder: Any = trained.graph.table_encoder
    options = run.spec().read
    n_nearest = options.knn_graph
    options = replace(options, nodes=None, label=None, knn_graph=None)
    path = home_expanded(source)
    new = load_files(path, options, fitted=table_encoder, needs_edges=False)
    for sentence in new.ingested.report.sentences if new.ingested else []:
        message(sentence)
    if alone and n_nearest and not new.graph.n_edges:
        new = load_files(path, replace(options, knn_graph=n_nearest), fitted=table_encoder)
    if new.ingested is not None and new.ingested.numbered:
        return _embed_numbered(run, trained, new, device, None if alone else n_nearest)
    n_known = len(set(as_text(new.graph.ids)) & set(as_text(trained.graph.ids)))
    if alone or path.suffix in WITHOUT_IDS or not (n_nearest or n_known):
        return _new_nodes(new, embed_dataset(run, new, device))
    if n_known:
        message(
            f"Joined with the training graph by id: {n_known:,} of the {new.graph.n:,} nodes in {source}; "
            "--alone embeds the new graph by itself."
        )
    joined, own = join_graphs(trained, new, n_neighbors=None if new.graph.n_edges else n_nearest)
    vectors = embed_dataset(run, joined, device)
    chosen = vectors[torch.from_numpy(own).to(vectors.device)].cpu().numpy()
    return NewNodes(joined.graph.ids[own], chosen, new, joined.graph, own, joined=True)


def _new_nodes(dataset: Dataset, vectors: Tensor) -> NewNodes:
    graph = dataset.graph
    return NewNodes(graph.ids, vectors.cpu().numpy(), dataset, graph, np.arange(graph.n), joined=False)


def _embed_numbered(run: Run, trained: Dataset, new: Dataset, device: torch.device, n_nearest: int | None) -> NewNodes:
    """Nodes whose ids are row numbers, which say nothing about the training graph. If that is a nearest-neighbor
    graph, they are linked to it under other names."""
    if not n_nearest or new.graph.n_edges:
        return _new_nodes(new, embed_dataset(run, new, device))
    names = np.array([f"{new.name}, row {number}" for number in new.graph.ids], dtype=object)
    joined, own = join_graphs(trained, replace(new, graph=replace(new.graph, ids=names)), n_neighbors=n_nearest)
    vectors = embed_dataset(run, joined, device)[torch.from_numpy(own).to(device)].cpu().numpy()
    return NewNodes(new.graph.ids, vectors, new, joined.graph, own, joined=False)
