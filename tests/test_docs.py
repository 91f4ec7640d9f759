"""What the documents say is still so."""

import re
import sys
from pathlib import Path

import pytest
from benchmarks import publish, reference
from typer.testing import CliRunner

import afgrl.methods
from afgrl.cli import app
from afgrl.config import Settings
from afgrl.estimator import NodeEmbedder
from afgrl.methods import methods
from afgrl.methods.afgrl import AFGRLConfig
from tests import test_methods as contract
from tests.conftest import communities

ROOT = Path(__file__).parent.parent
LETTERS = {
    "n_components": "D",
    "n_neighbors": "k",
    "n_clusters": "K",
    "n_restarts": "M",
    "n_layers": "L",
    "momentum": "τ",
    "learning_rate": "η",
}


def settings_rows():
    for name, field in AFGRLConfig.model_fields.items():
        default = "by the graph" if field.default is None else f"`{field.default}`"
        said = field.description.replace("|", "\\|")
        yield f"| `{name}` | {LETTERS.get(name, '')} | {default} | {said} |"


def test_the_table_of_settings_is_the_code():
    text = (ROOT / "docs" / "method.md").read_text()
    for row in settings_rows():
        assert row in text
    assert issubclass(AFGRLConfig, Settings)


def test_the_reference_is_the_code():
    assert reference.DOCUMENT.read_text() == "\n".join(reference.lines()) + "\n"
    used = set(re.findall(r"AFGRL_[A-Z]+", "".join(file.read_text() for file in (ROOT / "src").rglob("*.py"))))
    assert used == reference.VARIABLES.keys()


@pytest.mark.parametrize("document", publish.DOCUMENTS, ids=lambda path: path.name)
def test_documents_show_the_measured_results(document):
    text = document.read_text()
    assert publish.published(text) == text
    assert len(re.findall("<!-- results/", text)) == len(publish.SHOWN.findall(text))  # every marker has its end


def test_the_readmes_results_are_those_of_the_reproduction():
    assert "results/reproduction/overview.md" in publish.SHOWN.findall((ROOT / "README.md").read_text())


def test_the_readme_names_only_files_that_exist():
    for document in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_the_readmes_start_runs(tmp_path, monkeypatch):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    start = next(block for block in blocks if 'load("demo")' in block)
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(start, names)
    assert names["model"].embedding_.shape == (1797, 64)
    assert (tmp_path / "runs" / "mine" / "embeddings.parquet").exists()


def test_the_worked_method_is_short_and_keeps_the_contract(tmp_path, monkeypatch):
    source = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "add-a-method.md").read_text(), flags=re.DOTALL)[1]
    assert len([line for line in source.splitlines() if line.strip()]) < 60
    (tmp_path / "gae.py").write_text(source)
    monkeypatch.setattr("afgrl.methods.__path__", [*afgrl.methods.__path__, str(tmp_path)])
    monkeypatch.setitem(sys.modules, "afgrl.methods.gae", None)
    del sys.modules["afgrl.methods.gae"]
    methods.cache_clear()
    try:
        assert "gae" in methods()
        for sparse in (False, True):
            contract.test_a_finite_vector_for_every_node("gae", sparse)
        contract.test_same_seed_same_bits_and_another_seed_others("gae", communities())
        contract.test_resuming_equals_never_stopping("gae", communities())
        contract.test_looking_does_not_change_training("gae", communities())
        contract.test_what_a_recording_repeats_is_kept_in_place("gae", communities())
        contract.test_the_loss_falls("gae")
        contract.test_every_setting_says_what_it_is("gae")
        options = ["--quiet", "--device", "cpu", "--set", "epochs=5", "--out", str(tmp_path / "run")]
        assert CliRunner().invoke(app, ["fit", "demo", "--method", "gae", *options]).exit_code == 0
    finally:
        methods.cache_clear()


def test_the_table_of_methods_is_complete():
    text = (ROOT / "docs" / "methods.md").read_text()
    estimators = {cls.method: cls.__name__ for cls in NodeEmbedder.__subclasses__()}
    for name, method in methods().items():
        known = f"`{estimators[name]}`" if name in estimators else "–"
        assert f"| `{name}` | {known} |" in text
        assert re.search(rf"^\| `{name}` .*\| {'yes' if method.is_inductive else 'no'} \|$", text, re.MULTILINE)


@pytest.mark.parametrize("file", ["README.md", "CHANGELOG.md", "docs/method.md", "docs/deviations.md"])
def test_no_placeholder_is_left(file):
    assert not re.search(r"^(RESULTS|SETTINGS|CORA|TODO.*)$", (ROOT / file).read_text(), flags=re.MULTILINE)


def test_the_guide_to_your_own_graph_runs(tmp_path, monkeypatch):
    text = (ROOT / "docs" / "your-own-graph.md").read_text()
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(block, names)
    assert names["vectors"].shape == (60, 16)
    assert names["vectors"].index[7] == "person 7"
    assert names["embedded"].x.shape == (60, 16)
    assert (names["again"].embedding_ == names["model"].embedding_).all()
    assert set(names["groups"]) == {0, 1, 2}
