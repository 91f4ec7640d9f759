"""What comes before training: reading the source, checks, the run folder, and its copy of the dataset.

Only process 0 does this. Several processes then map the copy, each to read the rows that it needs; a single one keeps
the dataset in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch

from afgrl import methods
from afgrl.config import Settings
from afgrl.cost.disk import check_reading
from afgrl.cost.forecast import check_disk, memory_warning
from afgrl.data import Dataset
from afgrl.errors import UserError
from afgrl.experiment.model import load_method
from afgrl.runs.folder import Run
from afgrl.runs.lock import writing
from afgrl.runs.shared_graph import features_are_mapped
from afgrl.runs.spec import RunSpec
from afgrl.train.distributed import Processes

LOST_MACHINE = 120.0  # seconds; network file systems keep the locks of a lost machine for up to 90


class Begun(NamedTuple):
    """A run folder whose training can begin."""

    run: Run
    spec: RunSpec
    settings: Settings
    dataset: Dataset | None  # None for several processes: it is in the run folder


def begin_run(
    spec: RunSpec, out: Path | None, processes: Processes, held: ExitStack, *, force: bool, with_features: bool,
    message: Callable[[str], Any],
) -> Begun:  # fmt: skip
    """Called by process 0: read the source and copy it into a new run folder, which ``held`` keeps for this process."""
    check_reading(spec.source, spec.read)
    if out:  # before a large source is read
        force = force or is_own(out, processes)  # all of them ended before its dataset was complete
        Run.check_unused(out, force=force)
    dataset = spec.load()
    spec, settings = spec.resolved(dataset)
    check_processes(spec, settings, processes)
    if spec.evaluation.every and dataset.y is None:
        raise UserError(f"{spec.source!r} has no labels, so it cannot be evaluated during training.")
    for sentence in dataset.ingested.report.sentences if dataset.ingested else []:
        message(sentence)
    if processes.share_memory:
        alone = not processes.distributed
        if warning := memory_warning(settings, dataset, processes.device, may_use_files=alone):
            message(warning)
    written = processes.distributed and not features_are_mapped(spec)
    check_disk(settings, dataset, out or Path("runs"), all_features=written)
    run = Run.create(out, force=force) if out else Run.create_unused(Path("runs"), spec.run_name)
    held.enter_context(run.writing())
    with run.replacing():
        run.save_spec(spec)
        if processes.agents:  # before the rest, so that restarted processes recognize what is in the folder
            run.save_environment(processes.device, processes.agents)
        outside = run.save_dataset(dataset, with_features=with_features)
        if processes.distributed:
            run.share_features(dataset.graph.x)
    if outside:
        message(outside)
    return Begun(run, spec, settings, None if processes.distributed else dataset)


def stored_dataset(run: Run, processes: Processes, data_dir: str | None) -> Dataset | None:
    """Called by process 0: the dataset of an existing run; for several processes it is checked instead."""
    if not run.data():  # it was killed before the dataset was saved
        dataset = run.spec().load(data_dir)
        run.save_dataset(dataset)
        if processes.distributed:
            run.share_features(dataset.graph.x)
    elif processes.distributed:
        run.check_shared_graph(data_dir)
    else:
        dataset = run.dataset(data_dir)
    return None if processes.distributed else dataset


def check_processes(spec: RunSpec, settings: Settings, processes: Processes) -> None:
    """Raise ``UserError`` for what only one process without torchrun can do."""
    if not processes.distributed:
        return
    methods.check_processes(spec.method, settings)
    if spec.evaluation.every:
        raise UserError("Evaluation during training runs in one process; leave out --evaluate-every.")


def hold(held: ExitStack, path: Path, processes: Processes) -> None:
    """Called by process 0: nobody else writes the run until ``held`` is closed. The lock of a process 0 on another
    machine, which was lost, may stay for a while on a file system that they share."""
    held.enter_context(writing(path, patience=LOST_MACHINE if is_own(path, processes) else None))


def is_own(out: Path, processes: Processes) -> bool:
    """Whether the torchrun that started these processes began the run in the folder, before it restarted them."""
    if not processes.agents:
        return False
    try:
        return not processes.agents.isdisjoint(Run.open(out).environment().get("started by", []))
    except UserError:
        return False


def has_begun(out: Path, processes: Processes) -> bool:
    """Called by process 0: whether there is a run to continue after a restart."""
    return is_own(out, processes) and bool(Run(out).data())


def is_finished(run: Run) -> bool:
    """Called by process 0: whether training is complete, and what it wrote can be read. A model that cannot be read is
    removed, so that training begins again."""
    if not run.is_complete:
        return False
    try:
        load_method(run, torch.device("cpu"))
    except UserError:
        run.drop_model()
        return False
    try:
        run.environment(), run.predictions()
        return sum(len(group) for group in run.embedding_groups()) == len(run.embedding_ids())
    except UserError:
        return False


@contextmanager
def replacing(run: Run, processes: Processes) -> Iterator[None]:
    """As ``run.replacing``, in process 0. After another process was lost the new run stays: torchrun restarts this one,
    and it continues from the last checkpoint."""
    if not processes.writes:
        yield
        return
    lost = None
    with run.replacing():
        try:
            yield
        except RuntimeError as error:  # of PyTorch: the connection is closed
            if not processes.distributed:
                raise
            lost = error
    if lost is not None:
        raise lost
