"""Further training runs of the panel: with fewer edges or another seed, otherwise as the run itself.

Each is a run folder inside the run, so that an interrupted panel continues with what it has.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

import afgrl
from afgrl.data import Dataset
from afgrl.errors import Interrupted, UserError
from afgrl.evaluate.unlabeled.links import HiddenEdges, hide_edges, sample_edges
from afgrl.experiment.model import complete_settings
from afgrl.experiment.training import Display, train_run
from afgrl.graph import Graph
from afgrl.runs.folder import FORMAT, Run

HIDDEN_SHARE = 0.05  # of the edges, for link prediction
SCORED_EDGES = 20_000  # hidden edges that are scored at most
KEPT_SHARE = 0.9  # of the edges, for stability
N_EDGE_SAMPLES, N_SEEDS = 2, 1
SEED = 0  # of the hidden edges and the samples: all runs on a graph are measured on the same edges


@dataclass(frozen=True, eq=False)
class Training:
    name: str  # of its folder
    what: str  # of it in messages
    graph: Graph
    seed: int
    changes: Literal["edges", "seeds"]


def hidden_edges(graph: Graph) -> HiddenEdges:
    return hide_edges(graph, HIDDEN_SHARE, np.random.default_rng([SEED, 0]), SCORED_EDGES)


def without_hidden(hidden: HiddenEdges, seed: int) -> Training:
    return Training("links", f"without {HIDDEN_SHARE:.0%} of the edges", hidden.graph, seed, "edges")


def with_changes(graph: Graph, seed: int) -> Iterator[Training]:
    """On samples of the edges with the seed of the run, and with other seeds; one graph is in memory at a time."""
    for i in range(1, N_EDGE_SAMPLES + 1):
        part = sample_edges(graph, KEPT_SHARE, np.random.default_rng([SEED, i]))
        yield Training(f"edges-{i}", f"with {KEPT_SHARE:.0%} of the edges, sample {i}", part, seed, "edges")
        del part
    for i in range(1, N_SEEDS + 1):
        yield Training(f"seed-{i}", f"with seed {seed + i}", graph, seed + i, "seeds")


def trained_vectors(
    run: Run, dataset: Dataset, training: Training, device: torch.device, display: Display | None,
    message: Callable[[str], Any],
) -> Tensor:  # fmt: skip
    """The vectors of a further training run, [n, d]: read if it is finished, otherwise trained or continued."""
    spec, settings = run.spec(), complete_settings(run).model_copy(update={"seed": training.seed})
    part = Run(run.quality_folder / f"{training.name}-{_key(training, settings.model_dump())}")
    if not _is_usable(part):
        message(f"Training {training.what}.")
        part.path.mkdir(parents=True, exist_ok=True)
        part.drop_model()
        # Without periodic evaluations: nobody reads them, and they would use labels.
        part_spec = replace(spec, settings=settings.model_dump(), evaluation=type(spec.evaluation)())
        part.save_spec(part_spec)
        try:
            train_run(part, part_spec, replace(dataset, graph=training.graph), settings, device, display)
        except Interrupted:
            raise Interrupted(
                f"Interrupted while training {training.what}. It and the finished training runs are saved in "
                f"{str(run.quality_folder)!r}; the same command continues."
            ) from None
        part.drop_large_files(keep_embedding=True)
    return torch.from_numpy(part.embedding()[1]).to(device)


def _is_usable(part: Run) -> bool:
    """Whether a further run is finished and its vectors can be read; a damaged one is trained again."""
    try:
        return part.is_complete and len(part.embedding()[1]) > 0
    except UserError:
        return False


def _key(training: Training, settings: dict[str, Any]) -> str:
    """Of everything that the vectors follow from; features are those of the run."""
    parts = [training.graph.fingerprint, settings, FORMAT, afgrl.__version__]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:8]
