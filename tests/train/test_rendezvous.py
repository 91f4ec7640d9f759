"""How the processes of torchrun find those of the same start, and the network between machines."""

import os
import sys

import pytest
import torch.distributed as dist

from afgrl.train import rendezvous
from afgrl.train.distributed import joined_processes
from tests.methods.short_runs import CPU
from tests.train.processes import run_processes


def join_twice(rank, n_processes, port):
    """As two starts by a torchrun on each of two machines, of which the second was replaced: it counts from 0."""
    dist.destroy_process_group()  # that of run_processes
    os.environ |= {
        "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "GROUP_WORLD_SIZE": "2",
        "MASTER_ADDR": "localhost", "MASTER_PORT": str(port), "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_ERROR_FILE": f"/logs/of_{rank}/attempt_0/0/error.json",
    }  # fmt: skip
    results = []
    for start in range(2):
        os.environ["TORCHELASTIC_RESTART_COUNT"] = str(0 if rank else 1 + start)
        with joined_processes(CPU) as processes:
            results.append((processes.from_first(lambda begin=start: begin), len(processes.agents)))
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # for run_processes to end
    return results


def test_processes_meet_whatever_their_machines_count():
    server = dist.TCPStore("localhost", 0, is_master=True)
    first, second = run_processes(2, join_twice, server.port)
    assert first == [(0, 2), (1, 2)]  # process 0 knows both agents
    assert second == [(0, 0), (1, 0)]


@pytest.fixture
def machines(monkeypatch):
    """Of process 0, whose own name leads to 127.0.1.1, and of process 1."""
    monkeypatch.setenv("GROUP_WORLD_SIZE", "2")
    monkeypatch.setenv("MASTER_ADDR", "one")
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    monkeypatch.setattr(rendezvous, "_interface_of", lambda address: f"interface of {address}")
    store = dist.HashStore()

    def choose(rank, towards):
        monkeypatch.setattr(rendezvous, "_address_towards", towards.get)
        rendezvous._choose_interface(store, rank, 2)
        return os.environ.pop("GLOO_SOCKET_IFNAME", None)

    return store, choose


def test_gloo_uses_the_interface_to_the_other_machines(machines):
    store, choose = machines
    store.set("address 0", "127.0.1.1")
    assert choose(1, {"one": "10.0.0.2", "10.0.0.2": "10.0.0.2"}) == "interface of 10.0.0.2"
    assert choose(0, {"one": "127.0.1.1", "10.0.0.2": "10.0.0.1"}) == "interface of 10.0.0.1"


def test_two_agents_on_one_machine_leave_the_interface_to_gloo(machines):
    store, choose = machines
    store.set("address 0", "127.0.1.1")
    assert choose(1, {"one": "127.0.0.1"}) is None


def test_a_given_interface_is_kept(machines, monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    assert machines[1](0, {}) == "eth7"


@pytest.mark.skipif(sys.platform != "linux", reason="the interface is found by a request of Linux")
def test_the_interface_of_an_address():
    assert rendezvous._address_towards("127.0.0.1") == "127.0.0.1"
    assert rendezvous._interface_of("127.0.0.1") == "lo"
    assert rendezvous._interface_of("192.0.2.1") is None
    assert rendezvous._address_towards("no.such.host.invalid") == ""
