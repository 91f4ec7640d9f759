"""How fast an epoch is: the reference, the fast path and the arithmetic limit of the device, in one run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from afgrl.bench.epochs import Disagreement, compare
from afgrl.bench.measure import matmul_rates
from afgrl.bench.subject import Subject
from afgrl.config import recipe, resolve
from afgrl.data import load
from afgrl.data.benchmarks import BENCHMARKS
from afgrl.data.synthetic import synthetic
from afgrl.environment import environment
from afgrl.graph import Graph
from afgrl.methods import method_class
from afgrl.methods.afgrl import AFGRLConfig
from afgrl.methods.supervised_gcn import SupervisedGCNMethod

DATASETS = ("photo", "computers", "wikics", "cs", "physics")


def bench(
    datasets: Sequence[str],
    device: torch.device,
    *,
    recipe_name: str = "paper",
    data_dir: str | None = None,
    seconds: float = 20.0,
    settings: dict[str, Any] | None = None,
    methods: Sequence[str] = (),
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Epochs and stages of AFGRL with the settings of a recipe; the paper's searches positives in every epoch.

    Each figure is a median over 200 repetitions, or over those that fit into ``seconds``. Nothing is reported where
    the fast path and the reference disagree. A benchmark whose files are not at hand is replaced by a graph of its
    size. With ``methods`` only whole epochs are measured, of each of these.
    """
    if methods:
        return _bench_methods(datasets, methods, device, recipe_name, data_dir, seconds, settings or {}, say)
    rates = matmul_rates(device)
    answer: dict[str, Any] = environment(device) | {
        "recipe": recipe_name, "flops_per_second": rates, "epochs": [], "stages": [],
    }  # fmt: skip
    for name in datasets:
        graph, origin = _graph(name, data_dir)
        config = resolve(AFGRLConfig, recipe("afgrl", recipe_name, name), settings or {}).adapted(graph)
        subject = Subject(name, graph, config, device, seconds)
        say(f"{name}: whether the fast path agrees with the reference")
        agreement = subject.agreement()
        say(f"{name}: epochs")
        answer["epochs"].append({"dataset": name, "graph": origin, **subject.epochs(rates), "agreement": agreement})
        say(f"{name}: stages")
        answer["stages"] += subject.stages(rates)
    return answer


def _bench_methods(
    datasets: Sequence[str], methods: Sequence[str], device: torch.device, recipe_name: str, data_dir: str | None,
    seconds: float, settings: dict[str, Any], say: Callable[[str], None],
) -> dict[str, Any]:  # fmt: skip
    answer: dict[str, Any] = environment(device) | {"recipe": recipe_name, "methods": [], "refused": []}
    classes = {method: method_class(method) for method in methods}  # an unknown name is told before the work
    for name in datasets:
        graph, origin = _graph(name, data_dir)
        for method in (method for method, cls in classes.items() if cls.trains):
            say(f"{name}: {method}")
            layers = [recipe(method, recipe_name, name), _lesson(method, name), settings]
            config = resolve(classes[method].Config, *layers).adapted(graph)
            try:
                figures = compare(method, config, graph, device, seconds, name)
            except Disagreement as error:  # the other methods are none the worse for it
                answer["refused"].append(str(error))
                continue
            answer["methods"].append({"dataset": name, "graph": origin, "method": method, **figures})
    return answer


def _lesson(method: str, dataset: str) -> dict[str, int]:
    """What a supervised method is taught: as many classes and splits as the benchmark has."""
    if not issubclass(method_class(method), SupervisedGCNMethod):
        return {}
    return {"n_classes": BENCHMARKS[dataset].counts.classes if dataset in BENCHMARKS else 10, "n_splits": 20}


def _graph(name: str, data_dir: str | None) -> tuple[Graph, str]:
    if name in BENCHMARKS and not BENCHMARKS[name].raw.at_hand(data_dir):
        return synthetic(name), "synthetic"
    return load(name, data_dir=data_dir).graph, "real"


__all__ = ["DATASETS", "bench"]
