"""What docs/method.md promises: the same seed gives the same bits on the same machine with the same number of threads,
in any process, after pickling and after resuming; another number of threads changes roundings only."""

import inspect
import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone

from afgrl import AFGRL, NodeEmbedder
from afgrl.estimators import MethodEstimator
from afgrl.estimators.base import parameters_of
from afgrl.experiment.training import fit
from afgrl.runs.folder import Run
from afgrl.runs.spec import RunSpec
from afgrl.train.device import choose_device
from tests.conftest import communities

# Large enough that PyTorch shares the work among threads.
SIZE = {"n_groups": 4, "size": 150, "n_features": 40}
BATCHES = {"steps": 12, "refresh_every": 5, "n_components": 64, "n_clusters": 10, "device": "cpu"}
FULL = {"epochs": 6, "n_components": 64, "predictor_width": 128, "n_clusters": 10, "device": "cpu"}
OTHERS = {"epochs": 3, "n_components": 64, "hidden_width": 64, "projection_width": 64, "predictor_width": 64, "keep": 8,
          "walk_length": 20, "device": "cpu"}  # fmt: skip
# Fits estimators and writes their vectors; the settings come as JSON.
FIT = """
import json, sys
import numpy as np, torch
import afgrl
from tests.conftest import communities

cases, size, out = json.loads(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
graph = communities(**size)
vectors = {name: getattr(afgrl, cls)(**settings).fit_transform(graph) for name, cls, settings in cases}
np.savez(out, threads=torch.get_num_threads(), **vectors)
"""


def cases():
    """The default, AFGRL, and all other estimators."""
    found = [("batches", "NodeEmbedder", BATCHES), ("full", "AFGRL", FULL)]
    for cls in MethodEstimator.__subclasses__():
        if cls not in (AFGRL, NodeEmbedder) and cls.__module__ == AFGRL.__module__:
            known = inspect.signature(cls).parameters
            settings = {name: value for name, value in OTHERS.items() if name in known}
            found.append((cls.__name__, cls.__name__, settings))
    return found


def in_new_process(file, threads):
    # Threads that wait without spinning, for machines that do other work too.
    counts = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    environment = os.environ | counts | {"OMP_WAIT_POLICY": "passive"}
    arguments = [json.dumps(cases()), json.dumps(SIZE), str(file)]
    subprocess.run([sys.executable, "-c", FIT, *arguments], env=environment, check=True, capture_output=True)
    return dict(np.load(file))


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    """Those of two processes with two threads each, and of one with one thread."""
    folder = tmp_path_factory.mktemp("vectors")
    return [in_new_process(folder / f"{i}.npz", threads) for i, threads in enumerate((2, 2, 1))]


def test_two_processes_give_the_same_bits(vectors):
    first, second, _ = vectors
    assert first["threads"] == 2
    assert {name for name in first if not np.array_equal(first[name], second[name])} == set()


def test_another_number_of_threads_changes_roundings_only(vectors):
    """The cosines of all pairs of nodes are compared: single columns of principal directions with nearly the same
    singular value may turn."""
    first, _, one = vectors
    assert one["threads"] == 1
    for name in set(first) - {"threads"}:
        # Rounding may also decide which of two nearly equal directions is the last one kept: 3e-4 was measured.
        assert np.allclose(cosines(first[name]), cosines(one[name]), atol=5e-3), name


def cosines(vectors):
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return unit @ unit.T


@pytest.mark.parametrize(("cls", "settings"), [(NodeEmbedder, BATCHES), (AFGRL, FULL)])
def test_pickling_changes_no_bit(cls, settings):
    graph = communities(**SIZE)
    estimator = cls(**settings, random_state=3)
    copied = pickle.loads(pickle.dumps(estimator)).fit(graph)
    fitted = estimator.fit(graph)
    again = pickle.loads(pickle.dumps(fitted))
    expected = fitted.embedding_
    for same in (copied.embedding_, again.embedding_, again.transform(graph), again.fit_transform(graph)):
        assert np.array_equal(same, expected)
    assert np.array_equal(clone(fitted).fit_transform(graph), expected)
    resolved = cls(**parameters_of(fitted.method_.settings), device="cpu")  # every setting given explicitly
    assert np.array_equal(resolved.fit_transform(graph), expected)


@pytest.mark.parametrize(("method", "settings"), [("node_embedder", BATCHES), ("afgrl", FULL)])
def test_a_run_that_another_process_resumes_has_the_same_bits(method, settings, tmp_path, monkeypatch):
    """Stopped between two refreshes, as if killed: the new process has only the files."""
    graph = communities(**SIZE)
    source = tmp_path / "graph.npz"
    write_npz(source, graph)
    given = {name: value for name, value in settings.items() if name != "device"} | {"checkpoint_every": 4}
    spec = RunSpec(str(source), method, settings=given)
    whole = fit(spec, tmp_path / "whole", choose_device("cpu"))
    save = Run.save_checkpoint

    def save_and_stop(self, checkpoint):
        save(self, checkpoint)
        raise KeyboardInterrupt

    monkeypatch.setattr(Run, "save_checkpoint", save_and_stop)
    with pytest.raises(KeyboardInterrupt):
        fit(spec, tmp_path / "stopped", choose_device("cpu"))
    assert Run.open(tmp_path / "stopped").checkpoint(choose_device("cpu"))["step"] == 4
    words = ["fit", str(source), "--out", str(tmp_path / "stopped"), "--resume", "--device", "cpu", "--quiet"]
    same_threads = os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    subprocess.run([sys.executable, "-m", "afgrl", *words], check=True, capture_output=True, env=same_threads)
    resumed = Run.open(tmp_path / "stopped")
    assert np.array_equal(resumed.embedding()[1], whole.embedding()[1])


def write_npz(file, graph):
    adjacency = sp.csr_array(
        (np.ones(graph.edge_index.shape[1]), tuple(graph.edge_index.numpy())), shape=(graph.n,) * 2
    )
    parts = {f"adj_{part}": getattr(adjacency, part) for part in ("data", "indices", "indptr")}
    np.savez(file, **parts, adj_shape=np.array(adjacency.shape), attr_matrix=graph.x.numpy())
