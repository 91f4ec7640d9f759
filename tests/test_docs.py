"""The documents agree with the code, the measured results and the files in the repository.

python -m tests.test_docs        # rewrites the settings table of docs/method.md
"""

import importlib
import re
import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from torch.distributed.run import get_args_parser as torchrun_options
from torch_geometric.data import Data
from typer.testing import CliRunner

import afgrl.methods
from afgrl.cli.entry_point import app
from afgrl.estimators import MethodEstimator
from afgrl.methods import available_methods
from afgrl.methods.afgrl import AFGRLSettings
from afgrl.methods.parts.embedder_settings import NodeEmbedderSettings
from benchmarks import publish
from tests.methods.test_contract import check_method
from tools import generate_reference as reference

ROOT = Path(__file__).parent.parent
README, METHOD = ROOT / "README.md", ROOT / "docs" / "method.md"
DOCUMENTS = (README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md")))
every_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
SYMBOLS = {
    "n_components": "D",
    "n_neighbors": "k",
    "n_clusters": "K",
    "n_restarts": "M",
    "n_layers": "L",
    "momentum": "τ",
    "learning_rate": "η",
}
SETTINGS_TABLE = re.compile(r"\| setting \| symbol \| default \| meaning \|\n(?:\|.*\n)+")
GLOSSARY_TERMS = (
    "Real positive", "Local positive", "Global positive", "Target network", "EMA decay", "Refresh", "Propagation",
    "Multi-hop input", "S, normalized adjacency", "Baseline, untrained", "Last-epoch evaluation",
    "Best-epoch evaluation", "Periodic evaluation", "Sim@k", "Ingest report", "Table encoder", "Run, run folder",
    "RunSpec", "Run cache", "Checkpoint", "Capturable", "Recipe", "Effective rank", "Drift", "Spread",
)  # fmt: skip


def settings_table():
    """Of AFGRL, and those that only the default embedding has."""
    lines = ["| setting | symbol | default | meaning |", "|---|---|---|---|"]
    own = {
        name: field
        for name, field in NodeEmbedderSettings.model_fields.items()
        if name not in AFGRLSettings.model_fields
    }
    for name, field in {**AFGRLSettings.model_fields, **own}.items():
        default = "from the graph" if field.is_required() else f"`{field.default}`"
        meaning = ("default embedding only: " if name in own else "") + field.description.replace("|", "\\|")
        lines.append(f"| `{name}` | {SYMBOLS.get(name, '')} | {default} | {meaning} |")
    return "\n".join(lines) + "\n"


def python_blocks(document):
    return re.findall(r"```python\n(.*?)```", document.read_text(), flags=re.DOTALL)


def test_the_settings_table_equals_the_settings_class():
    assert SETTINGS_TABLE.findall(METHOD.read_text()) == [settings_table()]


def test_the_reference_equals_the_generated_one():
    assert reference.DOCUMENT.read_text() == "\n".join(reference.lines()) + "\n"


def test_the_reference_lists_every_environment_variable():
    used = set(
        re.findall(r"\b(?:AFGRL|OMP)_[A-Z_]+", "".join(file.read_text() for file in (ROOT / "src").rglob("*.py")))
    )
    assert used == reference.VARIABLES.keys()


@every_document
def test_result_blocks_equal_the_result_files(document):
    text = document.read_text()
    assert publish.published(text) == text
    assert len(re.findall("<!-- results/", text)) == len(publish.SHOWN.findall(text))  # every block has an end


def test_the_readme_shows_the_overview_of_the_reproduction():
    assert "results/reproduction/overview.md" in publish.SHOWN.findall(README.read_text())


@every_document
def test_links_lead_to_files_and_headings_that_exist(document):
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
        if target.startswith("http"):
            continue
        path, _, heading = target.partition("#")
        linked = document.parent / path if path else document
        assert linked.exists(), target
        if heading:
            assert heading in headings(linked), target


def headings(document):
    titles = re.findall(r"^#+ (.*)$", document.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


@every_document
def test_named_source_files_and_benchmarks_exist(document):
    text = document.read_text()
    for path in re.findall(r"`((?:src/afgrl|tests|tools|results|benchmarks|docs)/[\w./-]+)`", text):
        assert (ROOT / path).exists() or path.endswith(("gae.py", "gae.toml")), path  # the example of add-a-method.md
    for path in re.findall(r"`((?:ops|train|methods|nn|data)/[\w./]+)`", text):
        assert (ROOT / "src" / "afgrl" / path).exists(), path
    for module in re.findall(r"python -m (benchmarks\.\w+|tests\.[\w.]+)", text):
        place = ROOT / module.replace(".", "/")
        assert place.with_suffix(".py").exists() or (place / "__main__.py").exists(), module


@every_document
def test_named_commands_exist(document):
    known = set(reference._commands())
    text = document.read_text()
    lines = [line for block in re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL) for line in block.splitlines()]
    named = [line.split()[1] for line in lines if line.startswith("afgrl ")] + re.findall(r"`afgrl ([a-z]+)", text)
    for command in named:
        assert command in known, command


@every_document
def test_named_options_exist(document):
    known = {
        name
        for command in (reference._group(), *reference._commands().values())
        for part in command.params
        for name in (*part.opts, *part.secondary_opts)
    }
    known |= {name for action in torchrun_options()._actions for name in action.option_strings}
    for option in re.findall(r"`(?:afgrl [a-z]+ |[a-z]+ )?(--[a-z][a-z-]+)", document.read_text()):
        assert option in known, option


def test_the_guide_names_the_python_counterpart_of_every_command():
    table = (ROOT / "docs" / "your-own-graph.md").read_text().split("### What the commands do")[1].split("###")[0]
    listed = {
        name for row in re.findall(r"^\| (`afgrl .*?) \|", table, re.M) for name in re.findall(r"`afgrl (\w+)`", row)
    }
    assert listed == {command.name or command.callback.__name__ for command in app.registered_commands}


def test_functions_named_in_the_method_page_exist():
    names = re.findall(r"`((?:nn|ops|methods|train|evaluate)\.[\w.]+)`", METHOD.read_text())
    assert len(names) > 15
    for name in names:
        found, parts = importlib.import_module("afgrl"), name.split(".")
        for i, part in enumerate(parts):
            if not hasattr(found, part):
                importlib.import_module(".".join(["afgrl", *parts[: i + 1]]))
            found = getattr(found, part)


def test_the_first_python_example_of_the_readme_runs(tmp_path, monkeypatch):
    example = next(block for block in python_blocks(README) if 'load("demo")' in block)
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(example, names)
    assert names["model"].embedding_.shape == (1797, 64)
    assert (tmp_path / "runs" / "mine" / "embeddings.parquet").exists()


def test_the_converters_in_the_readme_accept_these_objects():
    example = next(block for block in python_blocks(README) if "from_networkx" in block)
    edge_index = np.array([[0, 1], [1, 2]])
    features = np.eye(3, dtype=np.float32)
    given = {
        "nodes": pd.DataFrame({"id": ["a", "b", "c"], "age": [1, 2, 3]}),
        "edges": pd.DataFrame({"source": ["a", "b"], "target": ["b", "c"]}),
        "data": Data(x=torch.eye(3), edge_index=torch.from_numpy(edge_index)),
        "adjacency": sp.coo_array((np.ones(2), edge_index), shape=(3, 3)),
        "network": nx.path_graph(3),
        "features": features,
        "edge_index": edge_index,
        "ids": ["a", "b", "c"],
    }
    lines = [line for line in example.splitlines() if line.startswith("graph = ")]
    assert len(lines) == 5
    for line in lines:
        names = dict(given)
        exec(f"{example.splitlines()[0]}\n{line}", names)
        assert names["graph"].n == 3


def test_the_example_method_is_short_and_satisfies_the_contract(tmp_path, monkeypatch):
    source = python_blocks(ROOT / "docs" / "add-a-method.md")[0]
    assert len([line for line in source.splitlines() if line.strip()]) < 60
    (tmp_path / "gae.py").write_text(source)
    monkeypatch.setattr("afgrl.methods.__path__", [*afgrl.methods.__path__, str(tmp_path)])
    monkeypatch.setitem(sys.modules, "afgrl.methods.gae", None)
    del sys.modules["afgrl.methods.gae"]
    available_methods.cache_clear()
    try:
        assert "gae" in available_methods()
        check_method("gae")
        options = ["--quiet", "--device", "cpu", "--set", "epochs=5", "--out", str(tmp_path / "run")]
        assert CliRunner().invoke(app, ["fit", "demo", "--method", "gae", *options]).exit_code == 0
    finally:
        available_methods.cache_clear()


def test_the_table_of_methods_is_complete():
    text = (ROOT / "docs" / "methods.md").read_text()
    estimators = {cls.method: cls.__name__ for cls in MethodEstimator.__subclasses__()}
    for name, method in available_methods().items():
        estimator = f"`{estimators[name]}`" if name in estimators else "–"
        assert f"| `{name}` | {estimator} |" in text
        assert re.search(rf"^\| `{name}` .*\| {'yes' if method.inductive else 'no'} \|$", text, re.MULTILINE)


def test_the_glossary_is_sorted_and_defines_the_special_terms():
    terms = re.findall(r"^\*\*(.*?)\.\*\*", (ROOT / "docs" / "glossary.md").read_text(), flags=re.MULTILINE)
    assert terms == sorted(terms, key=str.lower)
    for term in GLOSSARY_TERMS:
        assert any(defined.startswith(term) for defined in terms), term


@every_document
def test_no_placeholder_is_left(document):
    assert not re.search(r"^(RESULTS|SETTINGS|CORA|TODO.*|\{\{.*)$", document.read_text(), flags=re.MULTILINE)


def test_the_python_guide_to_your_own_graph_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in python_blocks(ROOT / "docs" / "your-own-graph.md"):
        exec(block, names)
    assert names["vectors"].shape == (60, 16)
    assert names["vectors"].index[7] == "person 7"
    assert names["embedded"].x.shape == (60, 16)
    assert (names["again"].embedding_ == names["model"].embedding_).all()
    assert set(names["groups"]) == {0, 1, 2}


if __name__ == "__main__":
    METHOD.write_text(SETTINGS_TABLE.sub(lambda found: settings_table(), METHOD.read_text()))
