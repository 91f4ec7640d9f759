"""Every method on every graph, in both protocols, beside the paper's values: scores, time and memory.

python -m benchmarks.methods run --datasets photo cs --methods bgrl gca --seeds 0 1 --out part.json
python -m benchmarks.methods table part.json …      # → results/methods.json, results/methods.md

Scores are measured by several processes at once; times and memory come from `afgrl bench --methods all`, alone on the
GPU: --out results/bench-methods-nvidia-h200.json.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from afgrl import evaluate
from afgrl.config import Settings, recipe, resolve
from afgrl.data import Dataset, load
from afgrl.experiment import lesson_size, teach
from afgrl.methods import method_class, methods
from afgrl.methods.supervised_gcn import SupervisedGCNMethod
from afgrl.runs import environment
from afgrl.train import State, pick_device, start, train
from benchmarks.headline import RESULTS, command_line

DATASETS = ("wikics", "computers", "photo", "cs", "physics")  # the order of the paper's tables
PAPER_ACCURACY = {  # of the paper's table of node classification; None: out of memory there
    "supervised_gcn": (77.19, 86.51, 92.42, 93.03, 95.65),
    "raw": (71.98, 73.81, 78.53, 90.37, 93.58),
    "node2vec": (71.79, 84.39, 89.67, 85.08, 91.19),
    "deepwalk": (74.35, 85.68, 89.44, 84.61, 91.77),
    "deepwalk_feats": (77.21, 86.28, 90.05, 87.70, 94.90),
    "dgi": (75.35, 83.95, 91.61, 92.15, 94.51),
    "gmi": (74.85, 82.21, 90.68, None, None),
    "mvgrl": (77.52, 87.52, 91.74, 92.11, 95.33),
    "grace": (77.97, 86.50, 92.46, 92.17, None),
    "gca": (77.94, 87.32, 92.39, 92.84, None),
    "bgrl": (76.86, 89.69, 93.07, 92.59, 95.48),
    "afgrl": (77.62, 89.88, 93.22, 93.27, 95.69),
}
PAPER_OTHER = {  # NMI, homogeneity, Sim@5, Sim@10 of its tables of clustering and similarity
    "grace": (
        (0.4282, 0.4423, 0.7754, 0.7645), (0.4793, 0.5222, 0.8738, 0.8643), (0.6513, 0.6657, 0.9155, 0.9106),
        (0.7562, 0.7909, 0.9104, 0.9059), None,
    ),
    "gca": (
        (0.3373, 0.3525, 0.7786, 0.7673), (0.5278, 0.5816, 0.8826, 0.8742), (0.6443, 0.6575, 0.9112, 0.9052),
        (0.7620, 0.7965, 0.9126, 0.9100), None,
    ),
    "bgrl": (
        (0.3969, 0.4156, 0.7739, 0.7617), (0.5364, 0.5869, 0.8947, 0.8855), (0.6841, 0.7004, 0.9245, 0.9195),
        (0.7732, 0.8041, 0.9112, 0.9086), (0.5568, 0.6018, 0.9504, 0.9464),
    ),
    "afgrl": (
        (0.4132, 0.4307, 0.7811, 0.7660), (0.5520, 0.6040, 0.8966, 0.8890), (0.6563, 0.6743, 0.9236, 0.9173),
        (0.7859, 0.8161, 0.9180, 0.9142), (0.7289, 0.7354, 0.9525, 0.9486),
    ),
}  # fmt: skip
ORDER = ["raw", "hops", "random", *(name for name in PAPER_ACCURACY if name != "raw")]
LOOKS = 6  # times a training is evaluated for the paper's protocol, which picks one


def run(datasets: list[str], seeds: list[int], out: Path, methods: list[str], assignments: list[str]) -> None:
    """Train and evaluate each combination; the file is rewritten after each, so that none is lost."""
    device = pick_device("auto")
    records: list[dict[str, Any]] = []
    settings = dict(assignment.split("=", 1) for assignment in assignments)
    for name in datasets:
        dataset = load(name, splits="random" if name in ("cora", "citeseer", "pubmed") else "auto")
        for method in methods:
            for seed in seeds if method not in ("raw", "hops") else seeds[:1]:
                records.append(measure(dataset, method, {**settings, "seed": seed}, device))
                out.write_text(json.dumps({"environment": environment(device), "runs": records}))


def measure(dataset: Dataset, method: str, settings: dict[str, Any], device: torch.device) -> dict[str, Any]:
    config = _config(method, dataset, settings)
    gc.collect()  # what the last training left
    began = time.perf_counter()
    state, inputs = start(method, config, dataset.graph, device)
    if isinstance(state.method, SupervisedGCNMethod):
        teach(state.method, dataset)
    look = Looks(dataset, inputs, state.last)
    train(state, inputs, [look])
    vectors = state.method.represent(inputs)
    _wait(device)
    seconds = time.perf_counter() - began - look.seconds
    if not look.records or look.records[-1]["epoch"] != state.step:
        look.evaluate(vectors, state.step)
    scores = evaluate.as_json(evaluate.label_free(vectors, dataset.y, dataset.splits))
    picked = evaluate.as_json(evaluate.pick(look.records))
    if isinstance(state.method, SupervisedGCNMethod):
        own = evaluate.as_json(evaluate.predicted(state.method.predict(inputs).cpu(), dataset.y, dataset.splits))
        scores["classification"] = picked["classification"] = own["classification"]
    record = {
        "commit": environment(device)["commit"], "dataset": dataset.name, "method": method,
        "settings": config.model_dump(), "epochs": state.step, "seconds": seconds,
        "label-free": scores, "paper": picked,
    }  # fmt: skip
    values = [f"{record[way]['classification']['accuracy']['mean']:.2f}" for way in ("paper", "label-free")]
    print(
        dataset.name, method, settings["seed"], *values, f"NMI {scores['clustering']['nmi']['mean']:.3f}",
        f"Sim@5 {scores['similarity']['sim@5']['mean']:.4f}", f"{state.step} epochs {seconds:.1f} s",
        f"looked for {look.seconds:.1f} s", file=sys.stderr, flush=True,
    )  # fmt: skip
    return record


def _config(method: str, dataset: Dataset, settings: dict[str, Any]) -> Settings:
    cls = method_class(method)
    size = lesson_size(method, dataset) if issubclass(cls, SupervisedGCNMethod) else {}
    return resolve(cls.Config, recipe(method, "paper", dataset.name), size, settings).adapted(dataset.graph)


class Looks:
    """Evaluates now and then, and keeps its own time apart."""

    def __init__(self, dataset: Dataset, inputs: Any, epochs: int) -> None:
        self.dataset, self.inputs = dataset, inputs
        self.every = max(1, min(epochs // LOOKS, 500 if epochs < 5000 else epochs))
        self.records: list[dict[str, Any]] = []
        self.seconds = 0.0

    def __call__(self, state: State, loss: Tensor) -> None:
        if state.step % self.every == 0 or state.step == state.last:
            _wait(state.rng.device)
            began = time.perf_counter()
            self.evaluate(state.method.represent(self.inputs), state.step)
            _wait(state.rng.device)
            self.seconds += time.perf_counter() - began

    def evaluate(self, vectors: Tensor, epoch: int) -> None:
        self.records.append(evaluate.snapshot(vectors, self.dataset.y, self.dataset.splits, epoch=epoch))


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def table(parts: list[Path]) -> None:
    """Merge measured parts; of a training that was made twice, the later part's stays."""
    stored = [json.loads(part.read_text()) for part in parts]
    runs = {
        (record["dataset"], record["method"], record["settings"]["seed"]): record
        for part in stored
        for record in part["runs"]
    }
    merged = {"environment": stored[-1]["environment"], "runs": list(runs.values())}
    (RESULTS / "methods.json").write_text(json.dumps(merged) + "\n")
    (RESULTS / "methods.md").write_text("\n".join(markdown(merged)) + "\n")


def markdown(merged: dict[str, Any]) -> Iterator[str]:
    made, commits = merged["environment"], ", ".join(sorted({run["commit"] for run in merged["runs"]}))
    yield "<!-- generated by `python -m benchmarks.methods table`; do not edit -->"
    yield f"Measured on one {made['device']} with torch {made['versions']['torch']}, commits {commits}. Means over the"
    yield "training seeds, of means over 20 splits; ± is the spread over the splits, then over the seeds. `paper`: the"
    yield f"epoch is picked with labels, as the paper does, among {LOOKS} or more of them; `label-free`:"
    yield "the last epoch. Seconds are epochs times what one takes alone on the GPU, GiB the peak of it (`afgrl bench`"
    yield "`--methods all`; –: not yet measured). WikiCS is missing: its file was not at hand."
    speeds = _speeds()
    for dataset in DATASETS:
        groups = {name: _group(merged, dataset, name) for name in ORDER}
        if any(groups.values()):
            yield from _tables(dataset, {name: group for name, group in groups.items() if group}, speeds)


def _group(merged: dict[str, Any], dataset: str, method: str) -> list[dict[str, Any]]:
    return [run for run in merged["runs"] if (run["dataset"], run["method"]) == (dataset, method)]


def _speeds() -> dict[tuple[str, str], dict[str, Any]]:
    file = RESULTS / "bench-methods-nvidia-h200.json"
    rows = json.loads(file.read_text())["methods"] if file.exists() else []
    return {(row["dataset"], row["method"]): row for row in rows}


def _tables(dataset: str, groups: dict[str, list[dict[str, Any]]], speeds: dict[Any, Any]) -> Iterator[str]:
    place = DATASETS.index(dataset)
    yield from ("", f"### {dataset}", "", "| method | accuracy: published | `paper` | `label-free` | seconds | GiB |")
    yield "|---|---|---|---|---|---|"
    for name, group in groups.items():
        known = PAPER_ACCURACY.get(name, [None] * 5)[place]
        seen = "–" if name not in PAPER_ACCURACY else "out of memory" if known is None else f"{known:.2f}"
        accuracies = [_accuracy([run[way]["classification"]["accuracy"] for run in group]) for way in PROTOCOLS]
        speed = speeds.get((dataset, name))
        seconds = f"{statistics.mean(run['epochs'] for run in group) * speed['fast_ms'] / 1e3:.1f}" if speed else "–"
        peak = f"{speed['peak_bytes'] / 2**30:.2f}" if speed else "–"
        yield f"| {name} | {seen} | {' | '.join(accuracies)} | {seconds} | {peak} |"
    yield from ("", "| method | protocol | NMI | homogeneity | Sim@5 | Sim@10 |", "|---|---|---|---|---|---|")
    for name, group in groups.items():
        if PAPER_OTHER.get(name, [None] * 5)[place]:
            yield f"| {name} | published | {' | '.join(f'{value:.4f}' for value in PAPER_OTHER[name][place])} |"
        for way in PROTOCOLS:
            cells = [_mean([run[way][task][leaf]["mean"] for run in group]) for task, leaf in OTHER_LEAVES]
            yield f"| {name} | {way} | {' | '.join(cells)} |"


PROTOCOLS = ("paper", "label-free")
OTHER_LEAVES = (
    ("clustering", "nmi"), ("clustering", "homogeneity"), ("similarity", "sim@5"), ("similarity", "sim@10"),
)  # fmt: skip


def _accuracy(scores: list[dict[str, Any]]) -> str:
    means = [score["mean"] for score in scores]
    over_seeds = f" ± {statistics.pstdev(means):.2f}" if len(means) > 1 else ""
    return f"{statistics.mean(means):.2f} ± {statistics.mean(score['std'] for score in scores):.2f}{over_seeds}"


def _mean(values: list[float]) -> str:
    return f"{statistics.mean(values):.4f}" + (f" ± {statistics.pstdev(values):.4f}" if len(values) > 1 else "")


if __name__ == "__main__":
    command_line(
        __doc__, run, table,
        methods={"nargs": "+", "default": list(methods())},
        set={"nargs": "+", "default": [], "dest": "assignments"},
    )  # fmt: skip
