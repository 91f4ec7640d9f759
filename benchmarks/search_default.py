"""What the rule of the default recipe was chosen by: labeled scores of a few settings as training goes.

    python -m benchmarks.search_default cora citeseer [--data-dir DIR]      # a JSON line a look, on standard output

It uses labels, so whatever is chosen by it must be checked on graphs it has not seen.
"""

from __future__ import annotations

import argparse
import json
import statistics
from typing import Any

import torch
from torch import Tensor

from afgrl import evaluate
from afgrl.config import resolve
from afgrl.data import Dataset, load
from afgrl.methods.afgrl import AFGRLConfig
from afgrl.train import State, pick_device, start, train

GRID: list[dict[str, Any]] = [
    {"n_hops": 0, "epochs": 300},
    {"n_hops": 1, "epochs": 300},
    {"n_hops": 2, "epochs": 300},
    {"n_hops": 1, "epochs": 700},
    {"n_hops": 2, "epochs": 700},
    {"n_hops": 2, "epochs": 1500, "learning_rate": 3e-4},
    {"n_hops": 0, "epochs": 2000},
    {"n_hops": 0, "epochs": 2000, "learning_rate": 5e-4},
    {"n_hops": 0, "epochs": 4000, "learning_rate": 5e-4},
]


def look(vectors: Tensor, dataset: Dataset) -> dict[str, float]:
    assert dataset.splits is not None
    scores = evaluate.label_free(vectors, dataset.y, dataset.splits)
    leaves = (("classification", "accuracy"), ("clustering", "nmi"), ("similarity", "sim@5"))
    return {name: statistics.mean(scores[task][name].values) for task, name in leaves}


def watch(dataset: Dataset, settings: dict[str, Any], device: torch.device) -> None:
    config = resolve(AFGRLConfig, settings).adapted(dataset.graph)
    state, inputs = start("afgrl", config, dataset.graph, device)

    def print_a_look(state: State, loss: Tensor) -> None:
        if state.step in (config.epochs // 4, config.epochs // 2, config.epochs):
            scores = look(state.method.represent(inputs), dataset)
            print(
                json.dumps({"dataset": dataset.name, "settings": settings, "epoch": state.step, **scores}), flush=True
            )

    train(state, inputs, [print_a_look])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+")
    parser.add_argument("--data-dir")
    given = parser.parse_args()
    for name in given.datasets:
        dataset = load(name, data_dir=given.data_dir, splits="random")
        for settings in GRID:
            watch(dataset, settings, pick_device("auto"))


if __name__ == "__main__":
    main()
