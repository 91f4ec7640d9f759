"""Runs a function in several processes that communicate by Gloo over the loopback interface."""

import multiprocessing
import os
import tempfile
import time
import traceback
from multiprocessing.connection import wait
from pathlib import Path

import torch
import torch._dynamo  # every optimizer needs it, and importing it in each process would take seconds
import torch.distributed as dist

TIMEOUT = 120  # seconds


def run_processes(n_processes, function, *arguments):
    """The results of ``function(rank, n_processes, *arguments)`` in each process, in the order of ranks.

    Processes are forked, since importing PyTorch would take longer than any of these tests.
    """
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        workers = [
            context.Process(target=_work, args=(Path(folder), rank, n_processes, function, arguments))
            for rank in range(n_processes)
        ]
        for worker in workers:
            worker.start()
        _wait(workers)
        problems = [file.read_text() for file in Path(folder).glob("*.error")]
        assert not problems, "\n".join(problems)
        assert [worker.exitcode for worker in workers] == [0] * n_processes
        return [torch.load(Path(folder) / f"{rank}.pt", weights_only=False) for rank in range(n_processes)]


def _wait(workers):
    """Until all have ended; if one fails, the others would wait for it."""
    deadline = time.monotonic() + TIMEOUT
    while any(worker.is_alive() for worker in workers):
        wait([worker.sentinel for worker in workers if worker.is_alive()], timeout=1)
        if any(worker.exitcode for worker in workers) or time.monotonic() > deadline:
            for worker in workers:
                worker.kill()


def _work(folder, rank, n_processes, function, arguments):
    torch.set_num_threads(1)  # also since a forked process cannot use the threads of its parent
    store = dist.FileStore(str(folder / "store"), n_processes)
    try:
        dist.init_process_group("gloo", store=store, rank=rank, world_size=n_processes)
        torch.save(function(rank, n_processes, *arguments), folder / f"{rank}.pt")
        dist.destroy_process_group()
    except BaseException:
        (folder / f"{rank}.error").write_text(traceback.format_exc())
        os._exit(1)
    os._exit(0)  # without the exit handlers of the test process
