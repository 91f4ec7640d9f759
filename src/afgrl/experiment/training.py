"""Train a method as a spec describes it, and keep everything in a run folder.

All processes compute, and process 0 writes. One process that torchrun did not start is the trivial case, given by its
device; it also evaluates during training, and trains methods that need labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

from afgrl.config import Settings
from afgrl.cost.forecast import table_folder
from afgrl.data import Dataset
from afgrl.data.splits import TRAIN, VALIDATION
from afgrl.errors import DISK_IS_FULL, Interrupted, disk_problem
from afgrl.experiment.model import complete_settings, describe_model, load_parameters
from afgrl.experiment.periodic import PeriodicEvaluation
from afgrl.experiment.reading import begin_run, check_processes, has_begun, hold, is_finished, replacing, stored_dataset
from afgrl.methods import Method
from afgrl.ops.collectives import Shards
from afgrl.ops.storage import tables_in_files
from afgrl.runs.embeddings import GROUP_ROWS
from afgrl.runs.files import StorageError
from afgrl.runs.folder import EVALUATIONS, HISTORY, Run
from afgrl.runs.invocation import pasteable
from afgrl.runs.spec import RunSpec
from afgrl.train.callbacks import Checkpoints, History, Stopwatch
from afgrl.train.distributed import Processes
from afgrl.train.loop import Callback, training_loop
from afgrl.train.monitor import EmbeddingMonitor
from afgrl.train.signals import stop_on_signals
from afgrl.train.state import TrainState, initial_state

Display = Callable[[Settings, int], AbstractContextManager[Callback]]  # shows progress


def fit(
    spec: RunSpec,
    out: Path | None,
    device: torch.device | Processes,
    *,
    force: bool = False,
    with_features: bool = True,
    display: Display | None = None,
    message: Callable[[str], Any] = lambda sentence: None,
) -> Run:
    """Train from the beginning, in a new run folder; without ``out`` under runs/.

    If torchrun has restarted the processes that began the run in ``out``, training continues from its last checkpoint.
    ``with_features=False`` leaves the features in the source. ``message`` receives the ingest report and warnings.
    """
    processes = Processes.of(device)
    with ExitStack() as held:  # by process 0, until all of them have finished
        if out:
            processes.from_first(lambda: hold(held, out, processes))
        if out and processes.from_first(lambda: has_begun(out, processes)):
            if not Run(out).is_complete:
                start = "continues from the last checkpoint" if Run(out).has_checkpoint else "begins again"
                message(f"A process has ended, so all were started again; training {start}.")
            return resume(Run(out), processes, display=display, message=message)
        begin = lambda: begin_run(  # noqa: E731
            spec, out, processes, held, force=force, with_features=with_features, message=message
        )
        begun = processes.from_first(begin)
        with replacing(begun.run, processes):
            return train_run(begun.run, begun.spec, begun.dataset, begun.settings, processes, display)


def resume(
    run: Run, device: torch.device | Processes, *, data_dir: str | None = None, display: Display | None = None,
    message: Callable[[str], Any] = lambda sentence: None,
) -> Run:  # fmt: skip
    """Continue an interrupted run from its last checkpoint, with its own settings and its own copy of the data. Any
    number of processes may have saved the checkpoint. Of a finished run, vectors that are damaged are computed again
    from the model, and a damaged model is trained again from the beginning."""
    processes = Processes.of(device)
    with ExitStack() as held:
        processes.from_first(lambda: hold(held, run.path, processes))
        if processes.from_first(lambda: is_finished(run)):
            message(f"The run {str(run.path)!r} is finished, so nothing was trained; --force trains it again.")
            return run
        spec, settings = run.spec(), complete_settings(run)
        check_processes(spec, settings, processes)
        dataset = processes.from_first(lambda: stored_dataset(run, processes, data_dir))
        return train_run(run, spec, dataset, settings, processes, display)


def train_run(
    run: Run, spec: RunSpec, dataset: Dataset | None, settings: Settings, device: torch.device | Processes,
    display: Display | None = None,
) -> Run:  # fmt: skip
    """Train in a run folder from its last checkpoint, or from the beginning if it has none.

    ``dataset`` is None for several processes: each reads its rows of the graph in the folder.
    """
    processes, stopwatch = Processes.of(device), Stopwatch()
    device = processes.device
    if processes.writes:
        run.save_environment(device, processes.agents)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    graph = run.shared_graph() if dataset is None else dataset.graph
    shards = processes.shards(graph.n)
    with tables_in_files(None if dataset is None else table_folder(settings, dataset.graph, device)):
        state, inputs = initial_state(spec.method, settings, graph, device, shards)
        if dataset is not None:
            attach_labels(state.method, dataset)
        monitor = EmbeddingMonitor(state, inputs, graph.n)
        _restore(run, state, processes, shards)
        callbacks: list[Callback] = [History(_log(run, monitor, processes)), stopwatch]
        if spec.evaluation.every and dataset is not None:
            callbacks.append(_periodic(run, spec, dataset, state, inputs, stopwatch))
        with _resumable(run, spec, processes):
            _loop(run, state, inputs, callbacks, processes, shards, display)
        _save_results(run, state, inputs, graph.edge_weight is not None, processes, dataset)
    return run


def _restore(run: Run, state: TrainState, processes: Processes, shards: Shards) -> None:
    processes.wait()  # no process reads the folder while another one prepares it
    if checkpoint := run.checkpoint(processes.device, shards):
        with run.reading("checkpoint.pt"):
            state.restore(checkpoint)
    elif run.is_complete:  # only its vectors have to be computed again
        tensors, description = run.model()
        load_parameters(run, state.method, tensors)
        state.step = state.last = description["epochs"]
        state.seconds = description["seconds"]
    processes.wait()
    if processes.writes:
        run.drop_lines_after(state.step)


def _log(run: Run, monitor: EmbeddingMonitor, processes: Processes) -> Callable[[dict[str, Any]], None]:
    def write(record: dict[str, Any]) -> None:
        statistics = monitor.statistics()  # of vectors of all processes
        if processes.writes:
            run.append(HISTORY, record | statistics)

    return write


def _periodic(
    run: Run, spec: RunSpec, dataset: Dataset, state: TrainState, inputs: Any, stopwatch: Stopwatch
) -> Callback:
    write = lambda record: run.append(EVALUATIONS, record)  # noqa: E731
    periodic = PeriodicEvaluation(dataset, inputs, spec.evaluation, write, stopwatch)
    if not run.lines(EVALUATIONS):
        periodic.evaluate(state)  # the untrained encoder is a candidate too, as in the authors' code
        stopwatch.restart()
    return periodic


def _loop(
    run: Run, state: TrainState, inputs: Any, callbacks: list[Callback], processes: Processes, shards: Shards,
    display: Display | None,
) -> None:  # fmt: skip
    def save(state: TrainState) -> None:
        if shards.distributed:
            run.save_sharded_checkpoint(state, shards)
        else:
            run.save_checkpoint(state.to_checkpoint())

    settings = state.method.settings
    shown: AbstractContextManager[Any] = nullcontext()
    if display and processes.writes:
        shown = display(settings, state.step)
    with stop_on_signals() as stop, shown as show:
        checkpoints = Checkpoints(save, settings.checkpoint_every, stop=stop, agree=processes.agree)
        training_loop(state, inputs, [*callbacks, *([show] if show else []), checkpoints])


@contextmanager
def _resumable(run: Run, spec: RunSpec, processes: Processes) -> Iterator[None]:
    """Adds how to continue to what stops training."""
    words = ("--nproc", processes.size) if processes.distributed else ()
    again = pasteable("fit", spec.source, "--out", run.path, "--resume", *words)
    try:
        yield
    except Interrupted as interruption:
        raise Interrupted(f"{interruption} Resume with: {again}") from None
    except OSError as error:
        if not run.has_checkpoint:
            raise
        first = "free some space, then " if error.errno in DISK_IS_FULL else ""
        raise StorageError(f"{disk_problem(error)}; {first}resume with: {again}") from error


def _save_results(
    run: Run, state: TrainState, inputs: Any, weighted: bool, processes: Processes, dataset: Dataset | None
) -> None:
    """The vectors, the predictions of a classifier, and the model; processes other than 0 send their vectors."""
    shards = processes.shards(state.method.size.n_nodes)
    groups = (block.cpu().numpy() for block in shards.blocks(state.method.embed(inputs), GROUP_ROWS))
    if processes.writes:
        run.save_embedding_groups(run.ids() if dataset is None else dataset.graph.ids, groups)
        predictions = state.method.predict(inputs)
        if predictions is not None:
            run.save_predictions(predictions.cpu().numpy())
        device = processes.device
        peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
        description = describe_model(
            state.method, weighted=weighted, epochs=state.step, seconds=state.seconds, peak_bytes=peak
        )
        run.save_model(state.method.state_dict(), description)
    else:
        for _ in groups:
            pass
    processes.wait()


def attach_labels(method: Method, dataset: Dataset) -> None:
    """Pass the labels to a method that needs them: in each split those of the training and validation nodes."""
    if method.needs_labels:
        assert dataset.y is not None
        assert dataset.splits is not None
        roles = torch.from_numpy(dataset.splits.roles)
        method.attach_labels(torch.as_tensor(dataset.y), roles == TRAIN, roles == VALIDATION)
