"""Memory and arithmetic are predicted before a training runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from afgrl.config import recipe, resolve
from afgrl.cost import machine
from afgrl.cost.limits import narrower
from afgrl.cost.memory import needed_memory, peak_memory
from afgrl.cost.workload import Workload, arithmetic
from afgrl.data.benchmarks import BENCHMARKS
from afgrl.data.synthetic import DENSITY, synthetic_graph
from afgrl.graph import Graph
from afgrl.methods.afgrl import AFGRLSettings

MEASURE = """
import json, sys, torch
from afgrl.bench.measure import peak_memory
from afgrl.config import recipe, resolve
from afgrl.data.synthetic import synthetic_graph
from afgrl.doctor import examine
from afgrl.methods.afgrl import AFGRLSettings
from afgrl.train.cuda_graph import eager_step
from afgrl.train.state import initial_state

name, settings, device = sys.argv[1], json.loads(sys.argv[2]), torch.device(sys.argv[3])
examine()  # loads libraries, which is not part of training
graph = synthetic_graph(name)
settings = resolve(AFGRLSettings, recipe("afgrl", "paper", name), settings, graph=graph)
with peak_memory(device) as peak:
    state, inputs = initial_state("afgrl", settings, graph, device)
    for _ in range(3):
        eager_step(state.method, state.optimizer, state.rng, inputs)
print(peak[0])
"""
SMALL = {"n_components": 256, "predictor_width": 512, "kmeans_iters": 2}


def config_of(name, settings, graph):
    return resolve(AFGRLSettings, recipe("afgrl", "paper", name), settings, graph=graph)


def measured(name, settings, device):
    # glibc keeps freed blocks below a size that grows as it runs; with a fixed size only what is in use is measured.
    # Two threads: the buffers of the search depend on their number.
    fixed = {"MALLOC_MMAP_THRESHOLD_": str(1 << 20), "TRITON_INTERPRET": "0", "OMP_NUM_THREADS": "2"}
    environment = os.environ | fixed
    answer = subprocess.run(
        [sys.executable, "-c", MEASURE, name, json.dumps(settings), device],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return int(answer.stdout.split()[-1])


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("name", "settings"),
    [("cora", {}), ("cora", {"n_hops": 2}), ("pubmed", SMALL)],
)
def test_memory_on_a_cpu_is_predicted_within_a_fifth(name, settings):
    graph = synthetic_graph(name)
    predicted = peak_memory(config_of(name, settings, graph), Workload.of(graph, "cpu"))
    assert predicted == pytest.approx(measured(name, settings, "cpu"), rel=0.2)


@pytest.mark.parametrize("name", ["photo", "computers", "wikics", "cs", "physics"])
def test_memory_on_a_gpu_is_predicted_within_a_fifth(name, small_graph):
    """Of what `afgrl bench` measured on an H200."""
    measured = json.loads((Path(__file__).parents[2] / "results" / "bench-nvidia-h200.json").read_text())
    counts = BENCHMARKS[name].counts
    nnz = round(DENSITY.get(name, 1.0) * counts.nodes * counts.features)
    load = Workload(counts.nodes, counts.features, 2 * counts.edges, nnz, "cuda")
    config = config_of(name, {}, small_graph)
    (peak,) = (row["peak_bytes"] for row in measured["epochs"] if row["dataset"] == name)
    assert peak_memory(config, load) == pytest.approx(peak, rel=0.2)


def test_arithmetic_by_hand(small_graph):
    given = {"n_components": 3, "predictor_width": 5, "n_hops": 1, "epochs": 1, "n_clusters": 2}
    config = resolve(AFGRLSettings, given, graph=small_graph)
    needed = arithmetic(config, Workload(n=10, n_features=4, n_edges=8, nnz=40, device="cuda"))
    assert needed.train == 3 * 2 * 10 * 8 * 3 + 3 * 2 * (2 * 10 * 3 * 5)
    assert needed.search == 2 * 10 * 10 * 3 + 2 * 10 * 5 * 2 * 3 * 21


def test_sparse_features_cost_what_they_hold():
    """On a CPU, where they stay factored."""
    graph = synthetic_graph("cora")
    config = config_of("cora", {}, graph)
    dense = Graph(graph.x.to_dense(), graph.edge_index)
    assert Workload.of(dense, "cpu").factored_nnz(0) == 0  # as stored, whatever zeros it holds
    on_cpu, on_gpu = (arithmetic(config, Workload.of(graph, device)).train for device in ("cpu", "cuda"))
    assert on_cpu < on_gpu


@pytest.mark.parametrize("name", ["cora", "photo", "pubmed", "cs"])
def test_a_synthetic_graph_has_as_many_words(name):
    assert synthetic_graph(name).density == pytest.approx(DENSITY[name], rel=0.05)


@pytest.mark.parametrize("name", ["cora", "wikics"])
def test_a_synthetic_graph_has_the_size_of_the_real_one(name):
    graph = synthetic_graph(name)
    counts = {"cora": (2708, 5278, 1433), "wikics": (11701, 216123, 300)}[name]
    assert (graph.n, graph.n_features) == (counts[0], counts[2])
    assert graph.n_edges == pytest.approx(counts[1], rel=0.05)  # those drawn twice count once
    assert torch.equal(synthetic_graph(name).edge_index, graph.edge_index)


def test_where_nobody_can_be_asked_memory_is_no_hindrance(monkeypatch):
    monkeypatch.setattr(machine.Path, "read_text", lambda *args, **options: "")  # no /proc/meminfo
    monkeypatch.delattr(os, "sysconf")  # Windows
    assert machine.free_memory("cpu") == sys.maxsize


def test_only_what_is_wide_is_made_narrower(small_graph):
    config = resolve(AFGRLSettings, {"epochs": 1, "n_components": 64, "predictor_width": 8192}, graph=small_graph)
    load = Workload.of(small_graph, "cpu")
    free = needed_memory(config.model_copy(update={"predictor_width": 512}), load)
    assert narrower(config, load, free) == {"n_components": 64, "predictor_width": 512}
