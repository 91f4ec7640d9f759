"""What the documents say is still so."""

import re
from pathlib import Path

import pytest
from benchmarks import publish

from afgrl.config import Settings
from afgrl.methods.afgrl import AFGRLConfig

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


@pytest.mark.parametrize("document", list(publish.SHOWN), ids=lambda path: path.name)
def test_documents_show_the_measured_results(document):
    assert publish.table(publish.SHOWN[document]) in document.read_text()


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


@pytest.mark.parametrize("file", ["README.md", "CHANGELOG.md", "docs/method.md", "docs/deviations.md"])
def test_no_placeholder_is_left(file):
    assert not re.search(r"^(RESULTS|SETTINGS|CORA|TODO.*)$", (ROOT / file).read_text(), flags=re.MULTILINE)
