"""How the processes of torchrun, on one machine or several, find those of the same start.

A start is what torchrun does at the beginning, and again after a process ended: all processes begin together.
"""

from __future__ import annotations

import hashlib
import os
import socket
import struct
import time
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import torch.distributed as dist

from afgrl.errors import AfgrlError

LONGEST_START = timedelta(minutes=10)  # from the first process of a start to the last, which may import for long
SIOCGIFADDR = 0x8915  # Linux: the IPv4 address of a network interface


def join_start() -> tuple[dist.Store, int, int, frozenset[str]]:
    """A store of this start only, rank, number of processes, and in process 0 the agents that started them.

    torchrun keeps one store for all starts, in which the addresses of processes that are gone remain. Its count of
    restarts does not tell them apart: each machine has its own count, and a machine that was replaced begins with 0.
    So process 0 gives the start a name and answers each process that asks for it, by a word that only this one knows.
    """
    store, rank, size = next(dist.rendezvous("env://"))
    word = uuid4().hex
    agents: frozenset[str] = frozenset()
    if rank:
        store.set(f"afgrl asks {rank}", word)
        store.wait([f"afgrl answers {word}"], LONGEST_START)
        name = store.get(f"afgrl answers {word}").decode()
        store.set(f"afgrl {name} has {rank}", _agent())
    else:
        name, agents = word, _answer_all(store, word, size)
    own = dist.PrefixStore(f"start {name}", store)
    _choose_interface(own, rank, size)
    return own, rank, size, agents


def _answer_all(store: dist.Store, name: str, size: int) -> frozenset[str]:
    """A question may be one of an earlier start, so it is asked for again until its process confirms the answer."""
    agents, missing, deadline = {_agent()}, set(range(1, size)), time.monotonic() + LONGEST_START.total_seconds()
    while missing:
        if time.monotonic() > deadline:
            raise AfgrlError(f"{len(missing)} of {size} processes did not start within ten minutes.")
        for rank in sorted(missing):
            if store.check([f"afgrl {name} has {rank}"]):
                agents.add(store.get(f"afgrl {name} has {rank}").decode())
                missing.remove(rank)
            elif store.check([f"afgrl asks {rank}"]):
                store.set(f"afgrl answers {store.get(f'afgrl asks {rank}').decode()}", name)
        time.sleep(0.02)
    return frozenset(agents)


def _agent() -> str:
    """The torchrun that started this process: every one has a log folder with a random name."""
    file = os.environ.get("TORCHELASTIC_ERROR_FILE")  # FOLDER/attempt_0/RANK/error.json
    words = f"{socket.gethostname()} {Path(file).parents[2]}" if file else uuid4().hex
    return hashlib.sha256(words.encode()).hexdigest()[:16]


def _choose_interface(store: dist.Store, rank: int, size: int) -> None:
    """Let Gloo use the network interface that leads to the other machines.

    By default it uses the address of the machine's own name, which on many systems is 127.0.1.1 (in /etc/hosts).
    """
    if os.environ.get("GROUP_WORLD_SIZE", "1") == "1" or "GLOO_SOCKET_IFNAME" in os.environ:
        return
    store.set(f"address {rank}", _address_towards(os.environ["MASTER_ADDR"]))
    everyone = [store.get(f"address {other}").decode() for other in range(size)]
    addresses = [everyone[rank], *everyone]  # on the machine of process 0, its name may lead to 127.0.1.1
    outside = next((one for one in addresses if one and not one.startswith("127.")), "")
    if outside and (name := _interface_of(_address_towards(outside))):
        os.environ["GLOO_SOCKET_IFNAME"] = name


def _address_towards(host: str) -> str:
    """The own IPv4 address from which packets to a host would be sent; nothing is sent. Empty if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 9))
        except OSError:
            return ""
        return str(probe.getsockname()[0])


def _interface_of(address: str) -> str | None:
    """The name of the interface with an IPv4 address; None on systems other than Linux."""
    try:
        import fcntl
    except ImportError:
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                found = fcntl.ioctl(probe, SIOCGIFADDR, struct.pack("256s", name.encode()))
            except OSError:  # it has no IPv4 address
                continue
            if socket.inet_ntoa(found[20:24]) == address:
                return name
    return None
