"""Clocks, with a fake one, and memory, in made-up and in real limits."""

import math
import subprocess
import sys

import pytest
import torch

from afgrl.cost import machine
from afgrl.cost.machine import anonymous_memory, free_addresses, free_of_groups, limit_of_groups
from afgrl.ops.cgroups import control_groups
from tests.control_groups import process_in_group

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("budget", "n_measured"),
    [
        (0.0, machine.MIN_CALLS),
        (1.0, 10),  # most calls take .1 s
        (1e6, machine.MAX_CALLS),
    ],
)
def test_the_median_of_as_many_calls_as_fit_into_the_budget(monkeypatch, budget, n_measured):
    now, calls = [0.0], []
    monkeypatch.setattr(machine.time, "perf_counter", lambda: now[0])

    def call():
        calls.append(now[0])
        now[0] += 5.0 if len(calls) == 1 else 1.0 if len(calls) % 3 == 0 else 0.1  # the first call compiles

    assert machine.median_seconds(call, CPU, budget) == pytest.approx(0.1)
    warm_up = 2 if budget < 1e6 else 1 + machine.WARM_UP_CALLS
    assert len(calls) == warm_up + n_measured


FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "inactive_file 0\ntotal_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}


@pytest.mark.parametrize("version", [1, 2])
def test_the_smallest_limit_of_the_own_group_and_those_above_counts(tmp_path, version):
    process, group = process_in_group(tmp_path, version, "/jobs/mine")
    limit, used, cached = FILES[version]

    def fill(folder, most, now, files):
        (folder / limit).write_text(f"{most}\n")
        (folder / used).write_text(f"{now}\n")
        (folder / "memory.stat").write_text(f"anon 5\n{cached} {files}\n")

    groups = control_groups("memory", process)
    assert (limit_of_groups(groups), free_of_groups(groups)) == (math.inf, math.inf)  # there are no files
    fill(group, 1000, 900, 600)  # page cache is released on demand
    assert (limit_of_groups(groups), free_of_groups(groups)) == (1000, 700)
    fill(group.parent, 2000, 1900, 100)
    assert (limit_of_groups(groups), free_of_groups(groups)) == (1000, 200)
    fill(group.parent.parent, 500, 0, 0)
    assert (limit_of_groups(groups), free_of_groups(groups)) == (500, 200)
    unlimited = "max" if version == 2 else 0x7FFFFFFFFFFFF000
    fill(group.parent, unlimited, 1900, 0)
    fill(group.parent.parent, unlimited, 1900, 0)
    assert (limit_of_groups(groups), free_of_groups(groups)) == (1000, 700)


def test_what_a_process_has_besides_files(tmp_path):
    assert anonymous_memory(tmp_path) == 0  # not Linux
    (tmp_path / "status").write_text("Name:\tpython\nVmRSS:\t  900 kB\nRssAnon:\t     700 kB\n")
    assert anonymous_memory(tmp_path) == 700 << 10


def test_a_limit_of_addresses(tmp_path, monkeypatch):
    resource = pytest.importorskip("resource")
    assert free_addresses(tmp_path) == math.inf  # not Linux
    (tmp_path / "statm").write_text("3 2 1 1 0 1 0\n")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (10 * resource.getpagesize(), resource.RLIM_INFINITY))
    assert free_addresses(tmp_path) == 7 * resource.getpagesize()
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY,) * 2)
    assert free_addresses(tmp_path) == math.inf


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS")
def test_a_real_limit_refuses_training_before_it_begins():
    code = (
        "import resource, numpy, afgrl\n"
        "from afgrl.cost.machine import total_memory\n"
        "graph, model = afgrl.Graph(numpy.eye(4000, 20), numpy.eye(2, 5, dtype=int)), afgrl.AFGRL(device='cpu')\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20), -1))\n"
        "assert 90 << 20 < total_memory('cpu') <= 100 << 20\n"
        "try:\n"
        "    model.fit(graph)\n"
        "except afgrl.UserError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Training needs about ")
