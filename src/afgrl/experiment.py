"""Composes dataset, method, training and evaluation into a run."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from afgrl import evaluate as evaluation
from afgrl.clusters import cluster_run
from afgrl.config import Settings, recipe, resolve
from afgrl.csr import csr_from_scipy, csr_to_scipy
from afgrl.data import Dataset, load
from afgrl.data.check import description
from afgrl.data.digest import digest
from afgrl.data.files.encode import fitted_from_json
from afgrl.data.files.formats import WITHOUT_IDS
from afgrl.data.files.join import join
from afgrl.data.files.source import load_files
from afgrl.data.sources import names
from afgrl.errors import Interrupted, UserError
from afgrl.forecast import warning
from afgrl.graph import as_text
from afgrl.lessons import lesson_size, teach
from afgrl.methods import Method, Size, method_class
from afgrl.methods.supervised_gcn import SupervisedGCNMethod
from afgrl.ops import hops
from afgrl.order import Order
from afgrl.runs import Run
from afgrl.train import Callback, Checkpoints, History, start, stop_on_signals, train
from afgrl.watch import Health, Trace

Display = Callable[[Settings, int], AbstractContextManager[Callback]]  # shows training as it goes


def fit(
    order: Order,
    settings: dict[str, Any],
    out: Path | None,
    device: torch.device,
    *,
    force: bool = False,
    display: Display | None = None,
    say: Callable[[str], Any] | None = None,
) -> Run:
    """Train a method on a source from the beginning, and keep everything in a new run folder; by default under runs/.

    ``say`` is told what was understood of a user's files, and whether memory may run out.
    """
    method = method_class(order.method)
    dataset = order.load()
    layers = [recipe(order.method, order.recipe, dataset.name), settings]
    if issubclass(method, SupervisedGCNMethod):
        layers.append(lesson_size(order.method, dataset))
    config = resolve(method.Config, *layers).adapted(dataset.graph)
    if order.evaluate_every and dataset.y is None:
        raise UserError(f"{order.source!r} has no labels, so it cannot be evaluated while it trains.")
    if say:
        sentences = dataset.reading.notes.sentences if dataset.reading else []
        for sentence in [*sentences, warning(config, dataset, device)]:
            if sentence:
                say(sentence)
    run = Run.create(out, force=force) if out else Run.unused(Path("runs"), order.run_name)
    with run.replacing():
        run.write_config(order.as_toml(), config.model_dump())
        _keep_data(run, dataset)
        return _train(run, order, dataset, config, device, display)


def resume(out: Path, device: torch.device, *, data_dir: str | None = None, display: Display | None = None) -> Run:
    """Go on with an interrupted run from its last checkpoint, with its own settings."""
    run, order, config = opened(out)
    if run.data():
        dataset = unchanged(run, order, data_dir)
    else:  # it was killed before it had written them down
        dataset = order.load(data_dir)
        _keep_data(run, dataset)
    return _train(run, order, dataset, config, device, display)


def _keep_data(run: Run, dataset: Dataset) -> None:
    """What a run needs of its source later; data.json last, which says that all is there."""
    if dataset.reading is not None and dataset.reading.encoder is not None:
        run.save_preprocessing(dataset.reading.encoder.as_json())
    if dataset.splits is not None:
        run.save_splits(dataset.splits)
    nodes, said = description(dataset)
    run.save_data(nodes, said | {"fingerprint": dataset.graph.fingerprint, "values": digest(dataset)})


def opened(path: Path) -> tuple[Run, Order, Settings]:
    """A run with what it was asked to be."""
    run = Run.open(path)
    stored = run.config()
    order = Order.from_toml(stored["run"])
    return run, order, resolve(method_class(order.method).Config, stored["settings"])


def _train(
    run: Run, order: Order, dataset: Dataset, config: Settings, device: torch.device, display: Display | None
) -> Run:
    run.write_environment(device)
    state, inputs = start(order.method, config, dataset.graph, device)
    if isinstance(state.method, SupervisedGCNMethod):
        teach(state.method, dataset)
    health = Health(state, inputs, dataset.graph.n)
    checkpoint = run.checkpoint(device)
    if checkpoint is not None:
        state.restore(checkpoint)
    run.forget_after(state.step)
    callbacks: list[Callback] = [History(lambda record: run.append("history.jsonl", record | health.look()))]
    if order.evaluate_every:
        trace = Trace(run, dataset, inputs, order.evaluate_every)
        if not run.lines("trace.jsonl"):
            trace.evaluate(state)  # the untrained encoder is a candidate, as in the authors' code
        callbacks.append(trace)
    shown: AbstractContextManager[Any] = display(config, state.step) if display else nullcontext()
    try:
        with stop_on_signals() as stop, shown as show:
            callbacks += [show] if show else []
            checkpoints = Checkpoints(run.save_checkpoint, config.checkpoint_every, stop=stop)
            train(state, inputs, [*callbacks, checkpoints])
    except Interrupted as interruption:
        command = shlex.join(["afgrl", "fit", order.source, "--out", str(run.path), "--resume"])
        raise Interrupted(f"{interruption} Go on with: {command}") from None
    vectors = state.method.represent(inputs)
    run.save_embedding(dataset.graph.ids, vectors.cpu().numpy())
    if isinstance(state.method, SupervisedGCNMethod):
        run.save_predictions(state.method.predict(inputs).cpu().numpy())
    weighted = dataset.graph.edge_weight is not None
    run.save_model(state.method.state_dict(), describe(order.method, config, state.method.size, weighted=weighted))
    return run


def describe(method: str, config: Settings, size: Size, *, weighted: bool) -> dict[str, Any]:
    """What model.json holds: all that is needed to build the method again around its parameters, and whether it
    learned from edges that have weights."""
    return {"method": method, **size._asdict(), "weighted": weighted, "settings": config.model_dump()}


def load_method(run: Run, device: torch.device) -> Method:
    """The trained method of a run, ready to embed."""
    tensors, description = run.model()
    cls = method_class(description["method"])
    config = resolve(cls.Config, description["settings"])
    size = Size(description["n_nodes"], description["n_features"])
    method = cls(config, size, torch.Generator())
    extra = {"_extra_state": method.get_extra_state()} if "_extra_state" in method.state_dict() else {}
    method.load_state_dict({**tensors, **extra})
    return method.to(device).eval()


def embed(run: Run, dataset: Dataset, device: torch.device) -> Tensor:
    """Vectors of a graph by a run's trained method, without training."""
    method = load_method(run, device)
    if dataset.graph.n_features != method.size.n_features:
        raise UserError(
            f"The run {str(run.path)!r} was trained on {method.size.n_features} features, "
            f"but {dataset.name!r} has {dataset.graph.n_features}."
        )
    return method.embed(dataset.graph.to(device))


def embed_new(
    run: Run,
    order: Order,
    source: str,
    device: torch.device,
    *,
    data_dir: str | None = None,
    alone: bool = False,
    say: Callable[[str], Any] = lambda line: None,
) -> tuple[np.ndarray, Tensor]:
    """Ids and vectors of new nodes. Where their edges lead to nodes of the training, its graph is put beside
    them, and ``say`` is told so; a graph of its own stays alone, as does any graph if ``alone``. Columns become
    features as they did in the training."""
    if source in names():
        dataset = load(source, data_dir=data_dir)
        return dataset.graph.ids, embed(run, dataset, device)
    stored = run.preprocessing()
    fitted = fitted_from_json(stored) if stored else None
    nearest = order.options.knn_graph
    told = replace(order.options, nodes=None, label=None, knn_graph=None)
    path = Path(source).expanduser()
    new = load_files(path, told, fitted=fitted, needs_edges=False)
    for sentence in new.reading.notes.sentences if new.reading else []:
        say(sentence)
    known = _known(run, new)
    if alone and nearest and not new.graph.n_edges:
        new = load_files(path, replace(told, knn_graph=nearest), fitted=fitted)
    if alone or not order.source or path.suffix in WITHOUT_IDS or not (nearest or known):
        return new.graph.ids, embed(run, new, device)
    if known:
        say(
            f"Ids of {source} that are nodes of the training, and are joined to them: {known:,} of {new.graph.n:,}; "
            "--alone embeds it by itself."
        )
    joined, own = join(unchanged(run, order, data_dir), new, n_nearest=None if new.graph.n_edges else nearest)
    vectors = embed(run, joined, device)
    return joined.graph.ids[own], vectors[torch.from_numpy(own).to(vectors.device)]


def _known(run: Run, new: Dataset) -> int:
    """How many nodes of the training a new dataset names."""
    return len(set(as_text(new.graph.ids)) & set(as_text(run.embedding()[0])))


def cluster(
    path: Path,
    k: int | None,
    seed: int = 0,
    *,
    data_dir: str | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Cluster a run's vectors and describe the clusters by the features of its source, if that is still there."""
    run, order, _ = opened(path)
    try:
        dataset = unchanged(run, order, data_dir)
    except UserError as error:  # moved, changed, or saved from Python: the clusters are the same
        say(f"The clusters are not described by their features: {error}")
        return cluster_run(run, k, seed=seed)
    return cluster_run(run, k, seed=seed, features=dataset.graph.x, names=dataset.feature_names)


def _trained_on(run: Run, order: Order, data_dir: str | None) -> Dataset:
    """A run's source, whose nodes are still those of the run's vectors."""
    dataset = order.load(data_dir)
    if not _same_ids(dataset.graph.ids, run.embedding()[0]):
        raise _no_longer(run, order, "nodes")
    return dataset


def unchanged(run: Run, order: Order, data_dir: str | None = None) -> Dataset:
    """A run's source, which still has the nodes, the edges and the features that the run was trained on."""
    dataset = order.load(data_dir)
    graph, kept = dataset.graph, run.data()
    if not _same_ids(graph.ids, run.nodes()["id"].to_numpy()):
        raise _no_longer(run, order, "nodes")
    known = {"fingerprint": graph.fingerprint, "features": graph.n_features, "values": digest(dataset)}
    for what, now in known.items():
        if kept.get(what, now) != now:
            raise _no_longer(run, order, "edges" if what == "fingerprint" else "features")
    return dataset


def _same_ids(some: np.ndarray, others: np.ndarray) -> bool:
    return np.array_equal(as_text(some), as_text(others))


def _no_longer(run: Run, order: Order, what: str) -> UserError:
    return UserError(f"{order.source!r} no longer has the {what} that {str(run.path)!r} was trained on.")


def evaluate(
    path: Path, device: torch.device, *, data_dir: str | None = None, baselines: bool = True
) -> dict[str, Any]:
    """The scores of a run in both protocols, with what needs no training beside them; kept as scores.json."""
    run, order, config = opened(path)
    dataset = _trained_on(run, order, data_dir)
    if dataset.y is None:
        raise UserError(f"{order.source!r} has no labels, so there is nothing to evaluate against.")
    _, vectors = run.embedding()
    labeled, y, splits = evaluation.labeled(dataset.y, run.splits())

    def label_free(embedding: Tensor) -> dict[str, Any]:
        rows = embedding if len(y) == len(embedding) else _rows(embedding, labeled)
        return evaluation.as_json(evaluation.label_free(rows.to(device), y, splits))

    own = label_free(torch.from_numpy(vectors))
    predictions = run.predictions()
    if predictions is not None:  # a supervised method classifies by itself
        own["classification"] = evaluation.as_json(evaluation.predicted(predictions[:, labeled], y, splits))[
            "classification"
        ]
    trace = run.lines("trace.jsonl")
    scores: dict[str, Any] = {
        "dataset": dataset.name,
        "method": order.method,
        "recipe": order.recipe,
        "seed": config.seed,
        "splits": splits.name,
        "label-free": own,
        "paper": evaluation.as_json(evaluation.pick(trace)) if trace else None,
        "baselines": {},
    }
    if baselines:
        vectors_of = untrained(order, config, dataset, device)
        scores["baselines"] = {name: label_free(rows) for name, rows in vectors_of.items()}
    run.save_scores(scores)
    return scores


def _rows(table: Tensor, kept: np.ndarray) -> Tensor:
    if table.layout == torch.sparse_csr:
        return csr_from_scipy(csr_to_scipy(table)[kept])
    return table[torch.from_numpy(kept)]


def untrained(order: Order, config: Settings, dataset: Dataset, device: torch.device) -> dict[str, Tensor]:
    """What a user has without training: the untrained method, multi-hop features, the features themselves."""
    state, inputs = start(order.method, config, dataset.graph, device)
    x = dataset.graph.x
    return {
        "random": state.method.represent(inputs),
        "hops": hops(dataset.graph.to(device), 2),
        "raw": x.to(device).to_dense() if device.type == "cuda" else x,  # CSR is evaluated by the CPU
    }
