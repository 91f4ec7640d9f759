"""Text columns embedded by a sentence-transformers model: a tiny BERT with random weights, made here."""

import builtins
import json
import shutil
import socket

import numpy as np
import pyarrow as pa
import pytest
from sklearn.preprocessing import StandardScaler

from afgrl import UserError, from_pandas, load
from afgrl.data.files import load_files
from afgrl.data.tables import text_model
from afgrl.data.tables.encode import TableEncoder, table_encoder_from_json
from afgrl.data.tables.options import ReadOptions
from afgrl.runs.embeddings import read_parquet
from tests.cli.test_commands import afgrl
from tests.data.tables import messages, write_tables

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "old", "maps", "wine", "likes", "reads", "about", "and"]
ABOUT = [
    "likes long walks and old maps", "likes maps and good wine", "reads about old wine and walks",
    "draws maps of long rivers",
]  # fmt: skip


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    sentence_transformers = pytest.importorskip("sentence_transformers", reason="pip install 'afgrl[text]'")
    transformers = pytest.importorskip("transformers")
    import torch
    from sentence_transformers.sentence_transformer import modules

    folder = tmp_path_factory.mktemp("model")
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    torch.manual_seed(0)
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = transformers.BertConfig(vocab_size=len(WORDS), max_position_embeddings=32, **shape)
    transformers.BertModel(config).save_pretrained(folder / "bert")
    transformers.BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder / "bert")
    transformer = modules.Transformer(str(folder / "bert"))
    model = sentence_transformers.SentenceTransformer(modules=[transformer, modules.Pooling(8)], device="cpu")
    model.save(str(folder / "tiny"))
    return folder / "tiny"


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*arguments):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def embedded(folder, cells):
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), local_files_only=True).encode(cells)


def test_text_columns_are_embedded_by_the_model(tmp_path, model_folder, no_network):
    options = ReadOptions(text_model=str(model_folder))
    dataset = load(str(write_tables(tmp_path)), options=options)
    columns = [dataset.feature_names.index(f"about[{i}]") for i in range(8)]
    x = dataset.graph.x.to_dense().numpy()[:, columns]
    np.testing.assert_allclose(x[:4], StandardScaler().fit_transform(embedded(model_folder, ABOUT)), atol=1e-4)
    assert not x[4].any()  # zed occurs only in edges
    text = f"The text column 'about' of nodes.csv is embedded in 8 features by the model in {model_folder}."
    assert text in messages(dataset, "info")


def test_a_run_with_a_text_model_embeds_new_nodes(tmp_path, model_folder, monkeypatch):
    folder, run = write_tables(tmp_path / "old"), tmp_path / "run"
    monkeypatch.chdir(model_folder.parent)
    small = ("--set", "steps=2", "--set", "n_components=4", "--set", "n_clusters=2", "--quiet", "--device", "cpu")
    answer = afgrl("fit", folder, "--out", run, "--text-model", model_folder.name, *small)
    assert answer.exit_code == 0, answer.stderr
    stored = json.loads((run / "preprocessing.json").read_text())[-1]
    assert stored["folder"] == str(model_folder)  # absolute
    assert stored["fingerprint"] == text_model.model_fingerprint(str(model_folder))
    assert f"--text-model {model_folder}" in (run / "config.toml").read_text()
    new = write_tables(tmp_path / "new", "name,age,city,about\neve,30,Rome,\nann,31,Rome,wine\n", "from,to\neve,bob\n")
    assert afgrl("embed", run, "--graph", new, "--out", tmp_path / "new.parquet").exit_code == 0
    ids, vectors = read_parquet(tmp_path / "new.parquet")
    assert list(ids) == ["eve", "ann"]
    assert np.isfinite(vectors).all()


def test_a_moved_or_changed_model_is_one_sentence(tmp_path, model_folder):
    copy = tmp_path / "model"
    shutil.copytree(model_folder, copy)
    table = pa.table({"t": ABOUT})
    encoder = TableEncoder.fit(table, {"t": "text"}, text_model=str(copy))
    again = table_encoder_from_json(json.loads(json.dumps(encoder.as_json())))
    assert again == encoder
    np.testing.assert_array_equal(again.encode(table).toarray(), encoder.encode(table).toarray())
    assert not encoder.encode(pa.table({"t": pa.nulls(2, pa.string())})).toarray().any()
    (copy / "README.md").write_text("other words")  # no part of the model
    assert again.encode(table).shape == (4, 8)
    (copy / "config.json").write_text((copy / "config.json").read_text() + " ")
    with pytest.raises(UserError, match=r"^The model in .* is not the one that embedded the text column 't' in tr"):
        again.encode(table)
    shutil.rmtree(copy)
    with pytest.raises(
        UserError, match=r"^The text column 't' was embedded by the model in .*, and that folder was not "
    ):
        again.encode(table)


def test_a_model_is_a_folder_that_can_be_loaded(tmp_path, model_folder, no_network):
    folder = write_tables(tmp_path / "graph")
    options = ReadOptions(text_model="sentence-transformers/all-MiniLM-L6-v2")  # never downloaded
    with pytest.raises(UserError, match=r"MiniLM-L6-v2 is not a folder\.$"):
        load_files(folder, options)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"^The model in .*empty cannot be loaded: [^\n]+\.$"):
        load_files(folder, ReadOptions(text_model=str(tmp_path / "empty")))


def test_pandas_tables_can_be_embedded_too(model_folder):
    import pandas as pd

    nodes = pd.DataFrame({"id": range(4), "about": ABOUT})
    graph = from_pandas(nodes, pd.DataFrame({"source": [0], "target": [1]}), text_model=str(model_folder))
    assert graph.table_encoder.names == [f"about[{i}]" for i in range(8)]


def test_without_the_package_the_pip_line_is_printed(tmp_path, monkeypatch):
    def without_package(name, *arguments):
        if name == "sentence_transformers":
            raise ImportError(name)
        return imported(name, *arguments)

    imported = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", without_package)
    answer = afgrl("check", write_tables(tmp_path / "graph"), "--text-model", tmp_path)
    assert answer.exit_code == 2
    assert "--text-model needs sentence-transformers: pip install 'afgrl[text]'." in " ".join(answer.stderr.split())


def test_a_model_without_text_columns_is_a_warning(tmp_path):
    folder = write_tables(tmp_path, "id,age\na,1\nb,2\n", "source,target\na,b\n")
    dataset = load_files(folder, ReadOptions(text_model=str(tmp_path)))
    text = "No column of nodes.csv is text, so --text-model has no effect; use --column NAME=text."
    assert messages(dataset, "warning") == [text]
