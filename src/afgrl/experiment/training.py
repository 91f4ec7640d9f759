"""Train a method as a spec describes it, and keep everything in a run folder."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch

from afgrl.config import Settings
from afgrl.cost.disk import check_reading
from afgrl.cost.forecast import check_disk, memory_warning, table_folder
from afgrl.data import Dataset
from afgrl.data.splits import TRAIN, VALIDATION
from afgrl.errors import DISK_IS_FULL, Interrupted, UserError
from afgrl.experiment.model import complete_settings, describe_model
from afgrl.experiment.periodic import PeriodicEvaluation
from afgrl.methods import Method
from afgrl.ops.storage import tables_in_files
from afgrl.runs.embeddings import GROUP_ROWS
from afgrl.runs.files import StorageError
from afgrl.runs.folder import EVALUATIONS, HISTORY, Run
from afgrl.runs.invocation import pasteable
from afgrl.runs.spec import RunSpec
from afgrl.train.callbacks import Checkpoints, History, Stopwatch
from afgrl.train.loop import Callback, training_loop
from afgrl.train.monitor import EmbeddingMonitor
from afgrl.train.signals import stop_on_signals
from afgrl.train.state import initial_state

Display = Callable[[Settings, int], AbstractContextManager[Callback]]  # shows progress


def fit(
    spec: RunSpec,
    out: Path | None,
    device: torch.device,
    *,
    force: bool = False,
    with_features: bool = True,
    display: Display | None = None,
    message: Callable[[str], Any] = lambda sentence: None,
) -> Run:
    """Train from the beginning, in a new run folder; without ``out`` under runs/.

    ``with_features=False`` leaves the features in the source. ``message`` receives the ingest report and warnings.
    """
    check_reading(spec.source, spec.read)
    dataset = spec.load()
    spec, settings = spec.resolved(dataset)
    if spec.evaluation.every and dataset.y is None:
        raise UserError(f"{spec.source!r} has no labels, so it cannot be evaluated during training.")
    for sentence in dataset.ingested.report.sentences if dataset.ingested else []:
        message(sentence)
    if warning := memory_warning(settings, dataset, device):
        message(warning)
    check_disk(settings, dataset, out or Path("runs"))
    run = Run.create(out, force=force) if out else Run.create_unused(Path("runs"), spec.run_name)
    with run.replacing():
        run.save_spec(spec)
        if outside := run.save_dataset(dataset, with_features=with_features):
            message(outside)
        return train_run(run, spec, dataset, settings, device, display)


def resume(run: Run, device: torch.device, *, data_dir: str | None = None, display: Display | None = None) -> Run:
    """Continue an interrupted run from its last checkpoint, with its own settings and its own copy of the data."""
    spec, settings = run.spec(), complete_settings(run)
    if run.data():
        dataset = run.dataset(data_dir)
    else:  # it was killed before the dataset was saved
        dataset = spec.load(data_dir)
        run.save_dataset(dataset)
    return train_run(run, spec, dataset, settings, device, display)


def train_run(
    run: Run, spec: RunSpec, dataset: Dataset, settings: Settings, device: torch.device, display: Display | None = None
) -> Run:
    """Train in a run folder from its last checkpoint, or from the beginning if it has none."""
    with tables_in_files(table_folder(settings, dataset.graph, device)):
        return _train_run(run, spec, dataset, settings, device, display)


def _train_run(
    run: Run, spec: RunSpec, dataset: Dataset, settings: Settings, device: torch.device, display: Display | None
) -> Run:
    run.save_environment(device)
    stopwatch = Stopwatch()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    state, inputs = initial_state(spec.method, settings, dataset.graph, device)
    attach_labels(state.method, dataset)
    monitor = EmbeddingMonitor(state, inputs, dataset.graph.n)
    checkpoint = run.checkpoint(device)
    if checkpoint is not None:
        with run.reading("checkpoint.pt"):
            state.restore(checkpoint)
    run.drop_lines_after(state.step)
    callbacks: list[Callback] = [
        History(lambda record: run.append(HISTORY, record | monitor.statistics())), stopwatch,
    ]  # fmt: skip
    if spec.evaluation.every:
        write = lambda record: run.append(EVALUATIONS, record)  # noqa: E731
        periodic = PeriodicEvaluation(dataset, inputs, spec.evaluation, write, stopwatch)
        if not run.lines(EVALUATIONS):
            periodic.evaluate(state)  # the untrained encoder is a candidate too, as in the authors' code
            stopwatch.restart()
        callbacks.append(periodic)
    shown: AbstractContextManager[Any] = display(settings, state.step) if display else nullcontext()
    try:
        with stop_on_signals() as stop, shown as show:
            callbacks += [show] if show else []
            checkpoints = Checkpoints(run.save_checkpoint, settings.checkpoint_every, stop=stop)
            training_loop(state, inputs, [*callbacks, checkpoints])
    except Interrupted as interruption:
        raise Interrupted(f"{interruption} Resume with: {resume_command(run, spec)}") from None
    except OSError as error:
        if not run.has_checkpoint:
            raise
        problem = f"{error.strerror}: {error.filename!r}" if error.filename else str(error)
        first = "free some space, then " if error.errno in DISK_IS_FULL else ""
        raise StorageError(f"{problem}; {first}resume with: {resume_command(run, spec)}") from error
    vectors = state.method.embed(inputs).split(GROUP_ROWS)
    run.save_embedding_groups(dataset.graph.ids, (block.cpu().numpy() for block in vectors))
    predictions = state.method.predict(inputs)
    if predictions is not None:
        run.save_predictions(predictions.cpu().numpy())
    weighted = dataset.graph.edge_weight is not None
    peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
    description = describe_model(
        state.method, weighted=weighted, epochs=state.step, seconds=state.seconds, peak_bytes=peak
    )
    run.save_model(state.method.state_dict(), description)
    return run


def resume_command(run: Run, spec: RunSpec, *words: object) -> str:
    return pasteable("fit", spec.source, "--out", run.path, "--resume", *words)


def attach_labels(method: Method, dataset: Dataset) -> None:
    """Pass the labels to a method that needs them: in each split those of the training and validation nodes."""
    if method.needs_labels:
        assert dataset.y is not None
        assert dataset.splits is not None
        roles = torch.from_numpy(dataset.splits.roles)
        method.attach_labels(torch.as_tensor(dataset.y), roles == TRAIN, roles == VALIDATION)
