"""Damaged files and files of other versions: one sentence that names the file and what to do."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import torch
from safetensors.torch import load_file, save_file

from afgrl import AFGRL
from afgrl.csr import csr_from_scipy
from afgrl.data import Dataset
from afgrl.data.splits import random_splits
from afgrl.errors import AfgrlError, UserError
from afgrl.experiment.model import load_method
from afgrl.experiment.training import resume
from afgrl.graph import Graph
from afgrl.runs.dataset_files import load_dataset, load_labels, save_dataset
from afgrl.runs.folder import HISTORY, Run
from afgrl.runs.readers import SMALL_FILE, reading
from afgrl.runs.spec import RunSpec
from tests.conftest import communities

CPU = torch.device("cpu")
SMALL = {"epochs": 2, "n_components": 8, "predictor_width": 8, "n_clusters": 3, "n_restarts": 2, "n_hops": 0}


@pytest.fixture
def folder(tmp_path):
    """A dataset with sparse features, labels and splits."""
    graph = communities()
    x = csr_from_scipy(sp.csr_array(graph.x.numpy() * (graph.x.numpy() > 1)))
    dataset = Dataset("made", Graph(x, graph.edge_index), np.arange(graph.n) % 3, random_splits(graph.n))
    save_dataset(tmp_path, dataset)
    return tmp_path


def change(name, at, value):
    def changed(tensors):
        tensors[name].view(-1)[at] = value

    return changed


def cast(name, dtype):
    def changed(tensors):
        tensors[name] = tensors[name].to(dtype)

    return changed


def swap_columns(tensors):
    """The two columns of the first row that has two."""
    start = int(tensors["x.indptr"][(tensors["x.indptr"].diff() > 1).nonzero()[0]])
    tensors["x.indices"][[start, start + 1]] = tensors["x.indices"][[start + 1, start]]


def overflowing_differences(tensors):
    """Each number seems larger than the one before, because the difference of 64-bit integers wraps around."""
    tensors["x.indptr"][2:4] = torch.tensor([-(2**63), -1])


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (change("edge_index", 0, 62), "'edge_index' has values from 0 to 62, not 0 to 61"),
        (change("edge_index", 3, -1), "'edge_index' has values from -1"),
        (cast("edge_index", torch.float32), "'edge_index' has the type torch.float32"),
        (lambda tensors: tensors.update(edge_index=torch.zeros(3, 4, dtype=torch.int32)), "has the shape"),
        (lambda tensors: tensors.pop("edge_index"), "it has no entry 'edge_index'"),
        (change("x.indices", 0, 10**9), "'x.indices' has values from"),
        (change("x.indices", 0, -1), "'x.indices' has values from"),
        (swap_columns, "not sorted within rows"),
        (change("x.indptr", 5, 10**12), "'x.indptr' has values from 0 to 1000000000000"),
        (overflowing_differences, "'x.indptr' has values from -9223372036854775808"),
        (change("x.indptr", 0, 1), "does not divide"),
        (change("x.indptr", -1, 1), "does not divide"),
        (cast("x.indptr", torch.int32), "'x.indptr' has the type torch.int32"),
        (lambda tensors: tensors.update({"x.indptr": tensors["x.indptr"][:-1].clone()}), "'x.indptr' has the shape"),
        (lambda tensors: tensors.update({"x.values": tensors["x.values"][:-1].clone()}), "'x.values' has the shape"),
        (lambda tensors: tensors.update(edge_weight=torch.ones(3)), "'edge_weight' has the shape"),
    ],
)
def test_index_arrays_are_checked_before_native_code_follows_them(folder, damage, reason):
    file = folder / "graph.safetensors"
    tensors = load_file(file)
    damage(tensors)
    save_file(tensors, file, {"n_features": "12"})  # without a checksum, as an earlier version or another program
    with pytest.raises(UserError, match=r"graph.safetensors' is damaged .*; train the run again") as caught:
        load_dataset(folder, RunSpec(""))
    assert reason in str(caught.value)


def test_a_changed_value_is_noticed(folder):
    file = folder / "graph.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(UserError, match="do not have the stored checksum"):
        load_dataset(folder, RunSpec(""))


@pytest.mark.parametrize(
    "changed",
    [
        {"y": np.zeros(3, int)}, {"y": np.full(62, -2)}, {"y": np.zeros(62)}, {"y": np.full(62, 2**40)},
        {"roles": np.zeros((2, 3), np.uint8)}, {"roles": np.full((2, 62), 9, np.uint8)},
        {"roles": np.zeros((2, 62), np.int64)}, {"roles": np.zeros((0, 62), np.uint8)},
        {"name": np.array([1, 2])}, {"name": np.array(None)},
    ],
)  # fmt: skip
def test_splits_are_checked(folder, changed):
    with np.load(folder / "splits.npz") as stored:
        arrays = dict(stored) | changed
    np.savez(folder / "splits.npz", **arrays)
    with pytest.raises(UserError, match=r"splits.npz' is damaged .*; train the run again"):
        load_labels(folder)


@pytest.mark.parametrize("names", [["a", "b"], ["a", "b", 3], []])
def test_class_names_are_checked(folder, names):
    data = json.loads((folder / "data.json").read_text())
    for entry, accepted in ((["a", "b", "c"], True), (None, True), (names, False)):
        (folder / "data.json").write_text(json.dumps(data | {"class_names": entry}))
        if accepted:
            assert load_dataset(folder, RunSpec("made")).ingested.classes == entry
            continue
        with pytest.raises(UserError, match=r"data\.json.*does not name the 3 classes"):
            load_dataset(folder, RunSpec("made"))


def test_an_array_that_claims_more_than_the_file_has_is_damaged(tmp_path):
    run = Run.create(tmp_path / "run")
    run.save_projection("pca", np.zeros((4, 2)))
    file = run.path / "projection-pca.npy"
    file.write_bytes(file.read_bytes().replace(b"(4, 2), }" + 11 * b" ", b"(400000000000, 2), }"))
    with pytest.raises(UserError, match=r"projection-pca.npy' is damaged .*; delete it to compute it again"):
        run.projection("pca")


def test_a_log_may_end_in_the_middle_of_a_line_and_nowhere_else(tmp_path):
    run = Run.create(tmp_path / "run")
    run.save_spec(RunSpec("demo"))
    log = run.path / HISTORY
    log.write_bytes(b'{"epoch": 1}\n{"epoch": 2}\n{"epo')
    assert [line["epoch"] for line in run.lines(HISTORY)] == [1, 2]
    for damage in (b'{"epoch": 1}\n{"ep\n{"epoch": 3}\n', b"5\n", b'{"loss": 1}\n', b"\xff\n", b"[" * 100_000 + b"\n"):
        log.write_bytes(damage)
        with pytest.raises(UserError, match=r"history.jsonl' is damaged .*its line [12] cannot be read.*; delete it"):
            run.lines(HISTORY)


def test_results_of_another_number_of_nodes_are_refused(folder):
    run = Run(folder)
    run.save_embedding(np.arange(61), np.ones((61, 2)))
    with pytest.raises(UserError, match=r"embeddings.parquet' .*it has 61 entries, but the run has 62 nodes"):
        run.embedding()
    pq.write_table(pa.table({"id": [1], "embedding": [[1.0, 2.0]]}), folder / "embeddings.parquet")
    with pytest.raises(UserError, match=r"embeddings.parquet' is damaged .*its vectors are list"):
        run.embedding()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "run"
    AFGRL(**SMALL, device="cpu").fit(communities()).save(path)
    return path


@pytest.fixture
def run(saved, tmp_path):
    import shutil

    shutil.copytree(saved, tmp_path / "run")
    return Run.open(tmp_path / "run")


def test_a_model_of_another_version_gets_one_sentence(run):
    file = run.path / "model.safetensors"
    tensors = load_file(file)
    del tensors["encoder.weights.0"]
    save_file(tensors, file)
    with pytest.raises(UserError, match=r"model.safetensors' is damaged or was made by another version of afgrl"):
        load_method(run, CPU)


@pytest.mark.parametrize(
    "changed",
    [{"settings": {"no_such": 1}}, {"settings": 3}, {"method": "agfrl"}, {"n_features": "12"}, {"weighted": None}],
)
def test_a_description_of_another_version_gets_one_sentence(run, changed):
    file = run.path / "model.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changed))
    with pytest.raises(UserError, match=r"model.json' is damaged or was made by another version.*afgrl fit … --resume"):
        load_method(run, CPU)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("epochs = 2", "no_such_setting = 2"), ("epochs = 2", 'epochs = "many"'), ('method = "afgrl"', "method = 3"),
        ("[run.evaluation]", "[run.later]"), ("every = 0", 'every = "often"'), ("[run.read]", "[[run.read]]"),
        ("[settings]", "[[settings]]"), ("format = 4", "format = [4]"),
    ],
)  # fmt: skip
def test_a_config_of_another_version_gets_one_sentence(run, old, new):
    file = run.path / "config.toml"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    (run.path / "model.json").unlink()  # otherwise nothing is left to train
    with pytest.raises(
        UserError, match=r"config.toml' is damaged or was made by another version.*; train the run again"
    ):
        resume(Run.open(run.path), CPU)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x80\x02.", None])
def test_a_damaged_checkpoint_says_how_to_go_on(run, content):
    before = run.embedding()[1]
    (run.path / "model.json").unlink()  # of a finished run, the checkpoint is not read
    if content is None:
        torch.save({"step": 1, "last": 2, "seconds": 0.0, "method": {}}, run.path / "checkpoint.pt")
    else:
        (run.path / "checkpoint.pt").write_bytes(content)
    with pytest.raises(UserError, match=r"checkpoint.pt' is damaged .*; delete it, and `afgrl fit … --resume` starts"):
        resume(run, CPU)
    (run.path / "checkpoint.pt").unlink()
    assert np.array_equal(resume(run, CPU).embedding()[1], before)


def test_what_is_not_about_the_file_is_not_called_damage(tmp_path):
    file = tmp_path / "model.json"
    file.write_bytes(b"small")
    for error in (PermissionError(13, "Permission denied"), OSError(5, "Input/output error"), AfgrlError("other")):
        with pytest.raises(type(error)) as caught, reading(file):
            raise error
        assert caught.value is error
    with pytest.raises(UserError, match="is damaged"), reading(file):
        raise MemoryError  # a small file claims much
    with open(file, "wb") as opened:
        opened.truncate(SMALL_FILE + 1)
    with pytest.raises(MemoryError), reading(file):
        raise MemoryError
