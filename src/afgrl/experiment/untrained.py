"""Embeddings that need no training, beside which a run is measured."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from afgrl.amounts import byte_size
from afgrl.config import Settings, resolve
from afgrl.cost.machine import free_memory
from afgrl.cost.workload import Workload
from afgrl.data import Dataset
from afgrl.graph import Graph
from afgrl.methods import method_class
from afgrl.ops.propagation import multi_hop_features
from afgrl.ops.propagation.columns import pagerank_average
from afgrl.runs.folder import Run
from afgrl.runs.spec import EvaluationPlan, RunSpec
from afgrl.train.state import initial_state

N_HOPS = 2  # of the baseline hops
HOPS_SHARE = 0.25  # of the free memory: the table, its scaled blocks and their concatenation are in memory together
SVD_COMPONENTS = 512  # the most for the baselines svd and ppr: the default of both methods


def untrained_embeddings(
    spec: RunSpec, dataset: Dataset, device: torch.device, message: Callable[[str], None] = lambda sentence: None,
    *, skip: Container[str] = (),
) -> Iterator[tuple[str, Tensor]]:  # fmt: skip
    """What needs no training, one after the other, since all of them would take several times the memory: the method
    before its first step, multi-hop features, the features themselves, and the vectors of the methods svd and ppr,
    which are at most as wide as the run's own. Those in ``skip`` are not computed."""
    if "random" not in skip:
        settings = resolve(method_class(spec.method).settings_class, spec.settings)
        yield "random", _embedded(spec.method, settings, dataset.graph, device)
    if "hops" not in skip and _hops_fit(dataset.graph, device, message):
        yield "hops", multi_hop_features(dataset.graph.to(device), N_HOPS)
    if "raw" not in skip:
        yield "raw", readable_features(dataset.graph, device)
    yield from _spectral_embeddings(spec, dataset, device, skip)


def command_of_baseline(run: Run, name: str) -> str | None:
    """The command that makes a run with these vectors; None for a run saved from Python."""
    spec = replace(run.spec(), evaluation=EvaluationPlan())
    if name == "random":
        steps = "steps" if spec.settings.get("batch_size") else "epochs"
        command = spec.command(run.path / "config.toml")
        return command and f"{command} --set {steps}=0"
    width = _spectral_width(spec)
    settings = {"n_components": width} if name in ("svd", "ppr") and width != SVD_COMPONENTS else {}
    return replace(spec, method=name, recipe="default", settings=settings).command()


def readable_features(graph: Graph, device: torch.device) -> Tensor:
    """The features as evaluation reads them: dense on a GPU, since CSR is evaluated on a CPU only."""
    return graph.x.to(device).to_dense() if device.type == "cuda" else graph.x


def _embedded(method: str, settings: Settings, graph: Graph, device: torch.device) -> Tensor:
    state, inputs = initial_state(method, settings, graph, device)
    state.method.complete(inputs)
    return state.method.embed(inputs)


def _hops_fit(graph: Graph, device: torch.device, message: Callable[[str], None]) -> bool:
    needed, free = _hops_memory(graph, device), free_memory(device.type)
    if needed <= HOPS_SHARE * free:
        return True
    message(
        f"The baseline hops is left out: its features take {byte_size(needed)}, more than a quarter of the "
        f"{byte_size(free)} that are free."
    )
    return False


def _hops_memory(graph: Graph, device: torch.device) -> int:
    """Bytes of ``[X | SX | S²X]``; sparse entries have an int64 column."""
    load = Workload.of(graph, device.type)
    dense = 4 * graph.n * graph.n_features * (N_HOPS + 1)
    return min(dense, 12 * sum(load.hop_nnz)) if load.hop_nnz else dense


def _spectral_embeddings(
    spec: RunSpec, dataset: Dataset, device: torch.device, skip: Container[str]
) -> Iterator[tuple[str, Tensor]]:
    """The vectors of svd, computed once, and their average, which is what the method ppr computes."""
    if "svd" in skip and "ppr" in skip:
        return
    given = {"n_components": _spectral_width(spec)}
    settings = resolve(method_class("svd").settings_class, given, graph=dataset.graph)
    state, inputs = initial_state("svd", settings, dataset.graph, device)
    vectors = state.method.embed(inputs)
    if "svd" not in skip:
        yield "svd", vectors
    if "ppr" not in skip:
        yield "ppr", pagerank_average(vectors, inputs.adjacency)


def _spectral_width(spec: RunSpec) -> int:
    return min(spec.settings.get("n_components", SVD_COMPONENTS), SVD_COMPONENTS)
