"""Accuracy on new nodes: a tenth of the nodes is held out of training, embedded afterwards and classified."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from afgrl.data import Dataset
from afgrl.data.splits import TEST, TRAIN, UNUSED, VALIDATION, Splits
from afgrl.errors import UserError
from afgrl.evaluate import logistic_probe
from afgrl.evaluate.matrix import select_rows
from afgrl.graph import Graph
from afgrl.runs.spec import RunSpec
from afgrl.train.loop import training_loop
from afgrl.train.state import initial_state

HELD_OUT = 0.1
TRAINING_PART = 9  # one of as many parts of the other nodes trains the classifier, and another chooses its strength


def new_node_accuracy(spec: RunSpec, dataset: Dataset, device: torch.device, draw: int = 0) -> float:
    """In percent, of a run with this spec, which does not see the held-out nodes and their edges while it trains."""
    held_out = held_out_nodes(dataset.graph.n, draw)
    part = subgraph(dataset.graph, ~held_out)
    settings = spec.resolved(replace(dataset, graph=part, y=None, splits=None))[1]
    state, inputs = initial_state(spec.method, settings, part, device)
    training_loop(state, inputs)
    known = state.method.embed(inputs)
    vectors = np.empty((len(held_out), known.shape[1]), dtype=np.float32)
    vectors[~held_out] = known.cpu().numpy()
    vectors[held_out] = state.method.embed_graph(dataset.graph.to(device)).cpu().numpy()[held_out]
    return held_out_accuracy(vectors, dataset.y, held_out, device)


def held_out_nodes(n: int, draw: int) -> np.ndarray:
    """Which nodes are held out: [n] bool."""
    held_out = np.zeros(n, dtype=bool)
    held_out[np.random.default_rng(draw).permutation(n)[: int(HELD_OUT * n)]] = True
    return held_out


def subgraph(graph: Graph, kept: np.ndarray) -> Graph:
    """The graph of some nodes, and the edges between them."""
    nodes = torch.from_numpy(kept)
    number, (first, second) = nodes.cumsum(0) - 1, graph.edge_index
    both = nodes[first] & nodes[second]
    weight = None if graph.edge_weight is None else graph.edge_weight[both]
    edges = torch.stack([number[first[both]], number[second[both]]])
    return Graph(select_rows(graph.x, np.flatnonzero(kept)), edges, edge_weight=weight)


def held_out_accuracy(
    vectors: np.ndarray, y: np.ndarray | None, held_out: np.ndarray, device: torch.device | str = "cpu"
) -> float:
    """On the held-out nodes that have labels, by a classifier of other nodes, in percent."""
    if y is None:
        raise UserError("Accuracy on new nodes needs labels.")
    labeled = y >= 0
    vectors, y, held_out = vectors[labeled], y[labeled], held_out[labeled]
    roles = np.full((1, len(y)), UNUSED, dtype=np.uint8)
    others = np.random.default_rng(0).permutation(np.flatnonzero(~held_out))
    size = len(others) // TRAINING_PART
    roles[0, others[:size]], roles[0, others[size : 2 * size]], roles[0, held_out] = TRAIN, VALIDATION, TEST
    rows, classes = torch.from_numpy(vectors).to(device), torch.as_tensor(y, device=device)
    return float(np.mean(logistic_probe(rows, classes, Splits("held out", roles))))
