"""Runs a function in several processes that communicate by Gloo over the loopback interface.

With AFGRL_TEST_NCCL=1 they communicate by NCCL and share one GPU: tensors of arguments are moved there, and those of
results back. NCCL refuses two processes of one machine on one GPU, so it is told that each is on another machine, and
messages go through sockets.
"""

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
from torch.utils._pytree import tree_map_only

TIMEOUT = 120  # seconds
CPU = torch.device("cpu")
DEVICE = torch.device("cuda") if os.environ.get("AFGRL_TEST_NCCL") == "1" else CPU


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


def run_alone(function, *arguments):
    """The result of ``function(0, 0, *arguments)``: 0 processes are one that torchrun did not start."""
    return run_processes(1, lambda _, __, *given: function(0, 0, *given), *arguments)[0]


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
        if DEVICE.type == "cuda":
            os.environ |= {"NCCL_HOSTID": f"machine {rank}", "NCCL_SOCKET_IFNAME": "lo"}
        backend = "nccl" if DEVICE.type == "cuda" else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=n_processes)
        result = function(rank, n_processes, *_moved(arguments, DEVICE))
        torch.save(_moved(result, CPU), folder / f"{rank}.pt")
        dist.destroy_process_group()
    except BaseException:
        (folder / f"{rank}.error").write_text(traceback.format_exc())
        os._exit(1)
    os._exit(0)  # without the exit handlers of the test process


def _moved(values, device):
    """The same with all tensors in lists, tuples and dictionaries on a device."""
    return tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), values)
