"""The speed of an epoch: reference, fast path and the arithmetic limit of the device, measured in one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch

from afgrl.bench.default import default_times
from afgrl.bench.epochs import Disagreement, compare
from afgrl.bench.stages import AFGRLBench
from afgrl.config import Settings
from afgrl.cost.machine import matmul_rates
from afgrl.data import Dataset, load
from afgrl.data.benchmarks import BENCHMARKS
from afgrl.data.splits import random_splits
from afgrl.data.synthetic import synthetic_graph
from afgrl.errors import UserError
from afgrl.methods import available_methods, method_class
from afgrl.methods.afgrl import AFGRLSettings
from afgrl.runs.environment import current_environment
from afgrl.runs.spec import RunSpec
from afgrl.train.device import choose_device

DATASETS = ("photo", "computers", "wikics", "cs", "physics")
DEFAULT_DATASETS = ("photo", "computers", "cs", "physics", "pubmed")
Message = Callable[[str], None]


def measure_speed(
    datasets: Sequence[str] = (),
    *,
    methods: Sequence[str] | Literal["all"] = (),
    default: bool = False,
    recipe: str = "paper",
    device: str = "auto",
    seconds: float = 20.0,
    settings: Mapping[str, Any] | None = None,
    data_dir: str | None = None,
    message: Message = lambda sentence: None,
) -> dict[str, Any]:
    """The measurements of `afgrl bench` as a dictionary: device, versions and commit, and rows under "epochs" and
    "stages", with ``methods`` under "methods" and "refused", with ``default`` under "default".

    ``datasets`` are names; by default those of the published tables. An epoch of AFGRL is measured with the settings of
    ``recipe``, overridden by ``settings``; ``methods``, names or "all", measures whole epochs of other methods;
    ``default`` measures the default settings from a graph to its vectors. ``seconds`` limits each measurement.
    """
    names, kind = list(datasets or (DEFAULT_DATASETS if default else DATASETS)), choose_device(device)
    chosen = list(available_methods()) if methods == "all" else list(methods)
    if not default:
        return run_bench(
            names, kind, recipe_name=recipe, data_dir=data_dir, seconds=seconds, settings=dict(settings or {}),
            methods=chosen, message=message,
        )  # fmt: skip
    if chosen or settings:
        raise UserError("--default measures the default settings of AFGRL: it takes no --methods and no --set.")
    return bench_default(names, kind, data_dir=data_dir, message=message)


def run_bench(
    datasets: Sequence[str],
    device: torch.device,
    *,
    recipe_name: str = "paper",
    data_dir: str | None = None,
    seconds: float = 20.0,
    settings: dict[str, Any] | None = None,
    methods: Sequence[str] = (),
    message: Message = lambda sentence: None,
) -> dict[str, Any]:
    """Epochs and stages of AFGRL with the settings of a recipe; the paper's recipe searches positives at every step.

    Each time is a median over 200 repetitions, or over those that fit into ``seconds``. If the fast path and the
    reference disagree, nothing is reported. A benchmark that is not available locally is replaced by a synthetic graph
    of its size. With ``methods``, only whole epochs are measured, for each of these methods.
    """
    if methods:
        return _bench_methods(datasets, methods, device, recipe_name, data_dir, seconds, settings or {}, message)
    rates = matmul_rates(device)
    answer: dict[str, Any] = current_environment(device) | {
        "recipe": recipe_name, "flops_per_second": rates, "epochs": [], "stages": [],
    }  # fmt: skip
    for name in datasets:
        dataset, origin = _load(name, data_dir)
        resolved = _resolve("afgrl", recipe_name, settings or {}, dataset)
        assert isinstance(resolved, AFGRLSettings)
        bench = AFGRLBench(dataset, resolved, device, seconds)
        message(f"{name}: comparing the fast path with the reference")
        agreement = bench.agreement()
        message(f"{name}: epochs")
        answer["epochs"].append({"dataset": name, "graph": origin, **bench.epochs(rates), "agreement": agreement})
        message(f"{name}: stages")
        answer["stages"] += bench.stages(rates)
    return answer


def bench_default(
    datasets: Sequence[str],
    device: torch.device,
    *,
    data_dir: str | None = None,
    message: Message = lambda sentence: None,
) -> dict[str, Any]:
    """Time from a graph in memory to its vectors with the default settings, beside full batches and DGI."""
    answer: dict[str, Any] = current_environment(device) | {"default": []}
    for name in datasets:
        dataset, origin = _load(name, data_dir)
        message(f"{dataset.name}: the default, full batches and Deep Graph Infomax")
        times = default_times(dataset.graph, device)
        answer["default"].append({"dataset": dataset.name, "graph": origin, **times})
    return answer


def _bench_methods(
    datasets: Sequence[str], methods: Sequence[str], device: torch.device, recipe_name: str, data_dir: str | None,
    seconds: float, settings: dict[str, Any], message: Message,
) -> dict[str, Any]:  # fmt: skip
    answer: dict[str, Any] = current_environment(device) | {"recipe": recipe_name, "methods": [], "refused": []}
    trained = [name for name in methods if method_class(name).trains]  # an unknown name raises before the work
    for name in datasets:
        dataset, origin = _load(name, data_dir)
        for method in trained:
            message(f"{name}: {method}")
            resolved = _resolve(method, recipe_name, settings, dataset)
            try:
                times = compare(method, resolved, dataset, device, seconds)
            except Disagreement as error:  # other methods may agree
                answer["refused"].append(str(error))
                continue
            answer["methods"].append({"dataset": name, "graph": origin, "method": method, **times})
    return answer


def _resolve(method: str, recipe_name: str, settings: dict[str, Any], dataset: Dataset) -> Settings:
    # An epoch is a step on all rows; a recipe that trains in batches is measured with the sizes it has in full batches.
    full = {"batch_size": 0} if method_class(method).supports_batches else {}
    return RunSpec(dataset.name, method, recipe_name, full | settings).resolved(dataset)[1]


def _load(name: str, data_dir: str | None) -> tuple[Dataset, str]:
    """A dataset with 20 splits, and whether it is real or synthetic; the values of labels do not affect the time."""
    if name not in BENCHMARKS or BENCHMARKS[name].raw.available(data_dir):
        return load(name, data_dir=data_dir, splits="random"), "real"
    graph = synthetic_graph(name)
    labels = np.arange(graph.n) % BENCHMARKS[name].counts.classes
    return Dataset(name, graph, labels, random_splits(graph.n)), "synthetic"


__all__ = ["DATASETS", "DEFAULT_DATASETS", "bench_default", "measure_speed", "run_bench"]
