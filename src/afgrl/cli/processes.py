"""`afgrl fit` with several processes on one machine: torchrun starts them, and each runs the same command."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from afgrl.amounts import byte_size, counted
from afgrl.cli.app import device_of, message, progress_display, silent
from afgrl.errors import AfgrlError, Interrupted, UserError

PROCESS_BYTES = 150 << 20  # of a process that has imported its libraries and read nothing (measured on a CPU)
MAX_RESTARTS = 3  # of all processes, when one of them ends unexpectedly
# The file to which process 0 writes how it ended; torchrun would report an exit code other than 0 as a crash, and
# start the processes again.
OUTCOME = "_AFGRL_OUTCOME"
KINDS: dict[str, type[AfgrlError]] = {kind.__name__: kind for kind in (UserError, Interrupted, AfgrlError)}


def is_worker() -> bool:
    """Whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def launch(n_processes: int, job: Any, out: Path | None) -> None:
    """Run this command, for a ``RunSpec`` or a run to resume, in several processes; raises the error of process 0."""
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    _check_number(n_processes)
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // n_processes)))
    with tempfile.TemporaryDirectory() as folder:
        config = LaunchConfig(
            min_nodes=1, max_nodes=1, nproc_per_node=n_processes, run_id=str(os.getpid()), rdzv_backend="c10d",
            rdzv_endpoint="localhost:0", max_restarts=MAX_RESTARTS, monitor_interval=0.5,
            logs_specs=DefaultLogsSpecs(log_dir=folder),  # by default in a folder that nobody removes
        )  # fmt: skip
        outcome = Path(folder) / "outcome.json"
        os.environ[OUTCOME] = str(outcome)
        try:
            elastic_launch(config, sys.executable)("-m", "afgrl", *_words(job, out))
        except SignalException:
            _raise(outcome)
            raise KeyboardInterrupt from None
        except ChildFailedError as failure:
            _raise(outcome)
            _, first = failure.get_first_failure()
            raise AfgrlError(
                f"A process ended with exit code {first.exitcode} and was restarted {MAX_RESTARTS} times; what it "
                "printed last says why."
            ) from None
        _raise(outcome)


def _check_number(n_processes: int) -> None:
    """Too many would take the memory of the whole machine before one of them reads the graph."""
    from afgrl.cost.machine import free_memory

    needed, free = n_processes * PROCESS_BYTES, free_memory("cpu")
    if needed > free:
        raise UserError(
            f"{counted(n_processes, 'process', 'processes')} need at least {byte_size(needed)}, and {byte_size(free)} "
            "are free; use a smaller --nproc."
        )


def _words(job: Any, out: Path | None) -> list[str]:
    """This command without --nproc, and with the run folder, in which restarted processes continue."""
    from afgrl.runs.folder import Run

    words = list(sys.argv[1:])
    at = next(number for number, word in enumerate(words) if word.split("=")[0] == "--nproc")
    del words[at : at + (1 if "=" in words[at] else 2)]
    return words if out else [*words, "--out", str(Run.create_unused(Path("runs"), job.run_name).path)]


def as_worker(job: Any, out: Path | None, device: str, data_dir: str | None, *, force: bool, quiet: bool) -> Any:
    """Train for a ``RunSpec``, or resume a run, as one of several processes; only process 0 returns the run.

    An error is passed to the process that launched this one, or raised if torchrun was called directly; only process 0
    reports it.
    """
    first = os.environ["RANK"] == "0"
    try:
        run = _train(job, out, device, data_dir, force=force, quiet=quiet or not first)
        return run if first else None
    except AfgrlError as error:
        if not first:
            raise SystemExit(0 if OUTCOME in os.environ else 2) from None
        if OUTCOME not in os.environ:
            raise
        kind = next(name for name, one in KINDS.items() if isinstance(error, one))
        Path(os.environ[OUTCOME]).write_text(json.dumps([kind, str(error)]), encoding="utf-8")
        raise SystemExit(0) from None


def _train(job: Any, out: Path | None, device: str, data_dir: str | None, *, force: bool, quiet: bool) -> Any:
    from afgrl.experiment.training import fit, resume
    from afgrl.runs.spec import RunSpec
    from afgrl.train.distributed import joined_processes

    if out is None:
        raise UserError("With torchrun, --out must name the run folder, so that restarted processes find it.")
    display, say = progress_display(quiet), silent if quiet else message
    with joined_processes(device_of(device)) as processes:
        # A machine that was replaced may have been given --resume.
        job, force = processes.from_first(lambda: (job, force))
        if not isinstance(job, RunSpec):
            return resume(job, processes, data_dir=data_dir, display=display, message=say)
        return fit(job, out, processes, force=force, display=display, message=say)


def _raise(outcome: Path) -> None:
    if outcome.is_file():
        kind, sentence = json.loads(outcome.read_text(encoding="utf-8"))
        raise KINDS[kind](sentence)
