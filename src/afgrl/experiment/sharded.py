"""Train with several processes: all compute, and process 0 writes the run folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch.distributed as dist

from afgrl.config import Settings
from afgrl.data import Dataset
from afgrl.data.leftovers import remove
from afgrl.errors import Interrupted, UserError
from afgrl.experiment.model import complete_settings, describe_model
from afgrl.experiment.training import Display, resume_command
from afgrl.methods import check_processes
from afgrl.ops.collectives import Shards
from afgrl.runs.checkpoints import checkpoint_folder, drop_folders
from afgrl.runs.embeddings import GROUP_ROWS
from afgrl.runs.folder import HISTORY, Run
from afgrl.runs.spec import RunSpec
from afgrl.train.callbacks import Checkpoints, History, Stopwatch
from afgrl.train.distributed import Processes
from afgrl.train.loop import Callback, training_loop
from afgrl.train.monitor import EmbeddingMonitor
from afgrl.train.sharded_checkpoint import save_shards
from afgrl.train.signals import stop_on_signals
from afgrl.train.state import TrainState, initial_state


def fit_sharded(
    spec: RunSpec,
    out: Path,
    processes: Processes,
    *,
    restarted: bool = False,
    force: bool = False,
    display: Display | None = None,
    message: Callable[[str], Any] = lambda sentence: None,
) -> Run:
    """Train from the beginning, or if torchrun has ``restarted`` the processes, from the last checkpoint in ``out``."""
    if restarted and _has_begun(out, replaced=force):
        return resume_sharded(Run.open(out), processes, display=display)
    dataset = spec.load()
    spec, settings = spec.resolved(dataset)
    check_processes(spec.method, settings)
    if spec.evaluation.every:
        raise UserError("Evaluation during training runs in one process; leave out --evaluate-every.")
    for sentence in dataset.ingested.report.sentences if dataset.ingested else []:
        message(sentence)
    run = processes.from_first(_created(out, force or restarted) if processes.writes else None)
    with _replacing(run) if processes.writes else nullcontext():
        if processes.writes:
            run.save_spec(spec)
            run.save_dataset(dataset)
        return _train(run, spec, dataset, settings, processes, display)


def resume_sharded(
    run: Run, processes: Processes, *, data_dir: str | None = None, display: Display | None = None
) -> Run:
    """Continue from the last checkpoint, which any number of processes may have saved."""
    spec, settings = run.spec(), complete_settings(run)
    check_processes(spec.method, settings)
    dataset = run.dataset(data_dir) if run.data() else spec.load(data_dir)
    return _train(run, spec, dataset, settings, processes, display)


def _created(out: Path, force: bool) -> Run | Exception:
    try:
        return Run.create(out, force=force)
    except UserError as error:
        return error


def _has_begun(out: Path, *, replaced: bool) -> bool:
    """Whether the run that torchrun started is in the folder; a complete one may be the run that it replaces."""
    try:
        run = Run.open(out)
        return bool(run.data()) and not (replaced and run.is_complete)
    except UserError:
        return False


@contextmanager
def _replacing(run: Run) -> Iterator[None]:
    """As ``run.replacing``, except that after another process was lost the new run stays: torchrun restarts this one,
    and it continues from the last checkpoint."""
    lost = None
    with run.replacing():
        try:
            yield
        except RuntimeError as error:  # of PyTorch: the connection is closed
            lost = error
    if lost is not None:
        raise lost


def _train(
    run: Run, spec: RunSpec, dataset: Dataset, settings: Settings, processes: Processes, display: Display | None
) -> Run:
    if processes.writes:
        run.save_environment(processes.device)
    stopwatch, shards = Stopwatch(), processes.shards(dataset.graph.n)
    state, inputs = initial_state(spec.method, settings, dataset.graph, processes.device, shards)
    monitor = EmbeddingMonitor(state, inputs, dataset.graph.n)
    dist.barrier()  # no process reads the folder while another one prepares it
    if checkpoint := run.checkpoint(processes.device, shards):
        state.restore(checkpoint)
    dist.barrier()
    if processes.writes:
        run.drop_lines_after(state.step)
    callbacks: list[Callback] = [History(_log(run, monitor, processes)), stopwatch]
    shown: AbstractContextManager[Any] = nullcontext()
    if display and processes.writes:
        shown = display(settings, state.step)
    save = lambda checkpoint: _save(run, state, shards)  # noqa: E731
    try:
        with stop_on_signals() as stop, shown as show:
            callbacks += [show] if show else []
            saves = Checkpoints(save, settings.checkpoint_every, stop=stop, agree=processes.agree)
            training_loop(state, inputs, [*callbacks, saves])
    except Interrupted as interruption:
        again = resume_command(run, spec, "--nproc", processes.size)
        raise Interrupted(f"{interruption} Resume with: {again}") from None
    _finish(run, state, inputs, dataset, shards)
    return run


def _log(run: Run, monitor: EmbeddingMonitor, processes: Processes) -> Callable[[dict[str, Any]], None]:
    def write(record: dict[str, Any]) -> None:
        statistics = monitor.statistics()  # of vectors of all processes
        if processes.writes:
            run.append(HISTORY, record | statistics)

    return write


def _save(run: Run, state: TrainState, shards: Shards) -> None:
    """The previous checkpoint is removed when the new one is complete."""
    folder = checkpoint_folder(run.path, state.step)
    if shards.rank == 0:
        remove(folder)  # of processes that were killed while they wrote it
    dist.barrier()
    save_shards(folder, state, shards)
    if shards.rank == 0:
        (run.path / "checkpoint.pt").unlink(missing_ok=True)
        drop_folders(run.path, keep=folder)


def _finish(run: Run, state: TrainState, inputs: Any, dataset: Dataset, shards: Shards) -> None:
    """The vectors and the model, as one process writes them."""
    groups = (block.cpu().numpy() for block in shards.blocks(state.method.embed(inputs), GROUP_ROWS))
    if shards.rank == 0:
        run.save_embedding_groups(dataset.graph.ids, groups)
        weighted = dataset.graph.edge_weight is not None
        description = describe_model(state.method, weighted=weighted, epochs=state.step, seconds=state.seconds)
        run.save_model(state.method.state_dict(), description)
    else:
        for _ in groups:
            pass
    dist.barrier()
