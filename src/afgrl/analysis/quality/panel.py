"""The quality panel of a run: what `afgrl quality` prints and quality.json stores."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from afgrl.analysis.clustering import cluster_vectors
from afgrl.analysis.quality import measures
from afgrl.analysis.quality.few_labels import probe_few_labels, probed_nodes
from afgrl.analysis.quality.measures import Structure
from afgrl.analysis.quality.retraining import (
    HIDDEN_SHARE,
    KEPT_SHARE,
    Training,
    hidden_edges,
    trained_vectors,
    with_changes,
    without_hidden,
)
from afgrl.analysis.quality.verdict import TRAINED, verdict_on
from afgrl.cost.storage import folder_after_training
from afgrl.data import Dataset
from afgrl.errors import UserError
from afgrl.evaluate.columns import BASELINES
from afgrl.evaluate.matrix import select_rows
from afgrl.evaluate.unlabeled.information import information_shares
from afgrl.evaluate.unlabeled.links import auc_difference_error, link_scores
from afgrl.experiment.model import complete_settings
from afgrl.experiment.training import Display
from afgrl.experiment.untrained import untrained_embeddings
from afgrl.graph import Graph
from afgrl.methods import method_class
from afgrl.ops.storage import tables_in_files
from afgrl.runs.folder import HISTORY, Run
from afgrl.runs.lock import writes_run

Json = dict[str, Any]
Say = Callable[[str], Any]
Vectors = Iterator[tuple[str, Tensor]]  # TRAINED and the names of baselines, with [n, d]
FEWEST_NODES, FEWEST_EDGES = 3, 20  # for any measure, and for those with fewer edges
# Baselines that are not computed again: features do not depend on edges, and only training depends on the seed.
UNCHANGED = {"edges": ("raw",), "seeds": tuple(BASELINES)}
DIGITS = 6  # of the figures in quality.json
LEARNED = "No probe: the method has learned from these labels, which would flatter it."


@dataclass(frozen=True, eq=False)
class Assessment:
    """What the parts of the panel share."""

    run: Run
    dataset: Dataset
    device: torch.device
    n_clusters: int
    display: Display | None
    message: Say

    @property
    def graph(self) -> Graph:
        return self.dataset.graph

    @property
    def seed(self) -> int:
        return complete_settings(self.run).seed

    def vectors(self, training: Training | None = None, skip: Container[str] = ()) -> Vectors:
        """The vectors of the run, or those of a further training run, then the baselines on the same edges except those
        in ``skip``. One after the other: all of them would take several times the memory."""
        if training is None:
            yield TRAINED, torch.from_numpy(self.run.embedding()[1]).to(self.device)
            graph, message = self.dataset.graph, self.message
        else:
            yield TRAINED, trained_vectors(self.run, self.dataset, training, self.device, self.display, self.message)
            graph, message = training.graph, _silent
        data = replace(self.dataset, graph=graph)
        yield from untrained_embeddings(self.run.spec(), data, self.device, message, skip=skip)


@writes_run
def assess_run(
    run: Run, device: torch.device, *, quick: bool = False, data_dir: str | None = None,
    display: Display | None = None, message: Say = lambda sentence: None,
) -> Json:  # fmt: skip
    """The quality panel of a run, saved as quality.json. ``quick`` leaves out what needs further training runs; it does
    not replace a saved panel that has them."""
    dataset = run.dataset(data_dir)
    if dataset.graph.n < FEWEST_NODES:
        raise UserError(f"The run {str(run.path)!r} has {dataset.graph.n} node(s); the quality panel needs at least 3.")
    if not quick and dataset.graph.n_edges < FEWEST_EDGES:
        message(f"The graph has fewer than {FEWEST_EDGES} edges, so the panel is the quick one.")
        quick = True
    with tables_in_files(folder_after_training(dataset.graph, run.embedding_shape[1], device)):
        shared = Assessment(run, dataset, device, _number_of_clusters(run), display, message)
        answer = _rounded(_answer(shared, quick))
    if quick and _has_complete_panel(run):
        message(f"The complete panel in {str(run.quality_file)!r} was kept.")
    else:
        run.save_quality(answer)
    return answer


def _has_complete_panel(run: Run) -> bool:
    try:
        stored = run.quality()
    except UserError:  # damaged
        return False
    return stored is not None and not stored["quick"]


def _answer(shared: Assessment, quick: bool) -> Json:
    run, dataset = shared.run, shared.dataset
    method, settings = method_class(run.spec().method), complete_settings(run)
    saved, y = run.clusters(), run.labels()[0]
    vectors, structures, labels = _measured(shared, y)
    if labels and method.needs_labels:
        labels = {"labeled": labels["labeled"], "sentence": LEARNED}
    answer: Json = {
        "dataset": dataset.name, "method": run.spec().method, "seed": shared.seed, "quick": quick,
        "nodes": dataset.graph.n, "samples": _samples(dataset.graph.n), "vectors": vectors,
        "clusters": {"k": shared.n_clusters, "saved": _saved_clusters(saved, dataset.graph)},
        "training": _last_statistics(run), "labels": labels,
        "information": information_shares(dataset.graph, method.reads(settings)),
    }  # fmt: skip
    answer["links"] = None if quick else _links(shared, vectors)
    answer["stability"] = None if quick else _stability(shared, structures)
    keeps_untrained = method.keeps_untrained(settings)
    return answer | {"verdict": verdict_on(vectors, keeps_untrained=keeps_untrained, trains=method.trains)}


def _measured(shared: Assessment, y: np.ndarray | None) -> tuple[Json, dict[str, Structure], Json | None]:
    """Of each kind of vectors the measures and the structure, and the probe from few labels of all of them."""
    found: Json = {}
    structures: dict[str, Structure] = {}
    probed, few = probed_nodes(y), {}
    for name, rows in shared.vectors():
        shared.message(f"Measuring the vectors: {name}.")
        structures[name] = Structure.of(rows, shared.n_clusters)
        found[name] = measures.vector_measures(rows, structures[name])
        found[name] |= measures.cluster_measures(structures[name].clusters, shared.graph)
        few[name] = select_rows(rows, probed)
        del rows  # before the next ones are computed
    return found, structures, probe_few_labels(few, y)


def _samples(n: int) -> Json:
    return {
        "seed": measures.SEED, "rank_nodes": min(n, measures.RANK_ROWS),
        "neighbor_nodes": min(n, measures.NEIGHBOR_ROWS), "neighbors": min(measures.N_NEIGHBORS, n - 1),
    }  # fmt: skip


def _saved_clusters(saved: tuple[np.ndarray, Json] | None, graph: Graph) -> Json | None:
    """Of the clusters of `afgrl cluster`, which are those of the readout."""
    return measures.cluster_measures(torch.tensor(saved[0], dtype=torch.int64), graph) if saved else None


def _last_statistics(run: Run) -> Json | None:
    """Spread, rank and drift after the last step, and the share of the drift in the second half of training."""
    records = [record for record in run.lines(HISTORY) if "drift" in record]
    if not records:
        return None
    with run.reading(HISTORY):
        last = records[-1]
        early = [record["drift"] for record in records if record["epoch"] <= last["epoch"] / 2]
        late = 1 - early[-1] / last["drift"] if early and last["drift"] else None
        return {name: float(last[name]) for name in ("spread", "rank", "drift")} | {"late_drift": late}


def _links(shared: Assessment, vectors: Json) -> Json | None:
    """Link prediction; None on a graph with too few edges or too many. The AUC of each kind of vectors is added to
    ``vectors``, and the standard error of its difference from that of the trained ones."""
    try:
        hidden = hidden_edges(shared.graph)
    except UserError as reason:
        shared.message(f"{reason} It is left out.")
        return None
    scores = {}
    for name, rows in shared.vectors(without_hidden(hidden, shared.seed)):
        if name in vectors:  # with fewer edges, hops may fit into memory where it did not before
            scores[name] = link_scores(rows, hidden.positive, hidden.negative)
        del rows
    for name, found in scores.items():
        vectors[name]["link_auc"] = found.auc
        if name != TRAINED:
            vectors[name]["link_auc_error"] = auc_difference_error(scores[TRAINED], found)
    return {"hidden_share": HIDDEN_SHARE, "scored": hidden.positive.shape[1], "pairs": hidden.negative.shape[1]}


def _stability(shared: Assessment, structures: dict[str, Structure]) -> Json:
    """Of neighbors and clusters, with fewer edges and with other seeds."""
    stability: Json = {"edges": {}, "seeds": {}}
    for training in with_changes(shared.graph, shared.seed):
        for name, rows in shared.vectors(training, skip=UNCHANGED[training.changes]):
            if name in structures:
                measured = structures[name].stability(Structure.of(rows, shared.n_clusters))
                for measure, value in measured.items():
                    stability[training.changes].setdefault(name, {}).setdefault(measure, []).append(value)
            del rows
    return {"kept_share": KEPT_SHARE, **stability}


def _silent(sentence: str) -> None:
    """The first computation of the baselines has already stated which one does not fit into memory."""


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    return [_rounded(part) for part in value] if isinstance(value, list) else value


def measures_of_run(run: Run, n_clusters: int | None = None, data_dir: str | None = None) -> Json:
    """The measures of a run's vectors, without baselines or further training; with the link prediction AUC of
    its quality panel if it has one. Without ``n_clusters``, the number is chosen as for the panel."""
    n_clusters = n_clusters or _number_of_clusters(run)
    vectors, stored = torch.from_numpy(run.embedding()[1]), run.quality()
    structure = Structure.of(vectors, n_clusters)
    found: Json = dict(measures.vector_measures(vectors, structure))
    found |= measures.cluster_measures(structure.clusters, run.edges())
    auc = stored["vectors"].get(TRAINED, {}).get("link_auc") if stored else None
    return _rounded({"n_clusters": n_clusters, **found} | ({} if auc is None else {"link_auc": auc}))


def _number_of_clusters(run: Run) -> int:
    """That of `afgrl cluster` if it was run, otherwise chosen by modularity on a nearest-neighbor graph."""
    saved = run.clusters()
    return max(2, saved[1]["k"] if saved else cluster_vectors(run.embedding()[1]).k)
