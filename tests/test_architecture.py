"""The direction of imports and the public names, held by tests."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import afgrl

SOURCE = Path(afgrl.__file__).parent

# What each part may import; every part may import errors. docs/architecture.md explains it.
ALLOWED = {
    "errors": set(),
    "csr": set(),
    "graph": {"data"},  # late, for Graph.from_pandas alone
    "config": {"graph"},  # as an annotation only
    "ops": {"graph"},
    "positives": {"graph", "ops"},
    "augment": {"graph", "ops"},
    "diffusion": {"graph", "ops"},
    "nn": {"graph", "ops"},
    "methods": {"augment", "config", "diffusion", "graph", "nn", "ops", "positives"},
    "recipes": set(),
    "data": {"graph", "ops"},
    "steps": {"methods"},
    "train": {"config", "graph", "methods", "nn", "ops", "steps"},
    "estimate": {"graph", "methods", "ops"},
    "bench": {
        "config",
        "data",
        "environment",
        "estimate",
        "graph",
        "methods",
        "nn",
        "ops",
        "positives",
        "steps",
        "train",
    },
    "evaluate": {"data", "graph", "ops"},
    "environment": set(),
    "writing": set(),
    "folders": set(),
    "vectors": {"graph", "writing"},
    "order": {"data"},
    "runs": {"config", "data", "environment", "folders", "order", "vectors", "writing"},
    "search": {"graph", "index", "ops", "runs"},
    "forecast": {"bench", "config", "data", "estimate", "methods"},
    "lessons": {"data", "methods"},
    "watch": {"data", "evaluate", "runs", "train"},
    "clusters": {"graph", "ops", "runs"},
    "index": {"ops", "runs", "writing"},
    "onnx": {"experiment", "graph", "methods", "nn", "ops", "runs", "writing"},
    "report": {"graph", "ops", "order", "runs", "search", "tables", "writing"},
    "explore": {"ops", "report", "runs", "search", "vectors"},
    "experiment": {
        "clusters",
        "config",
        "data",
        "evaluate",
        "forecast",
        "graph",
        "lessons",
        "methods",
        "ops",
        "order",
        "runs",
        "train",
        "watch",
    },
    "reproduce": {
        "config",
        "data",
        "environment",
        "evaluate",
        "graph",
        "lessons",
        "methods",
        "nn",
        "ops",
        "positives",
        "train",
        "writing",
    },
    "progress": {"config", "train"},
    "estimator": {"config", "data", "experiment", "graph", "methods", "ops", "progress", "runs", "train"},
    "doctor": {"config", "data", "environment", "graph", "methods", "ops", "train"},
    "tables": set(),
}


def part(module):
    return module.split(".")[1] if "." in module else None


def imports(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "afgrl":
            names = [f"afgrl.{alias.name}" for alias in node.names] if node.module == "afgrl" else [node.module]
            yield from (part(name) for name in names)
        elif isinstance(node, ast.Import):
            yield from (part(alias.name) for alias in node.names if alias.name.startswith("afgrl."))


@pytest.mark.parametrize("name", sorted(ALLOWED))
def test_imports_point_one_way(name):
    files = [SOURCE / f"{name}.py"] if (SOURCE / f"{name}.py").exists() else sorted((SOURCE / name).rglob("*.py"))
    assert files
    for file in files:
        wrong = set(imports(file)) - ALLOWED[name] - {name, "errors", "csr", None}
        assert not wrong, f"{file.name} imports {wrong}"


def test_every_part_is_listed():
    parts = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert parts - {"__init__", "__main__", "cli"} == ALLOWED.keys()


def test_public_names():
    methods = [
        "AFGRL",
        "BGRL",
        "DGI",
        "DeepWalk",
        "DeepWalkFeatures",
        "GCA",
        "GMI",
        "GRACE",
        "Hops",
        "MVGRL",
        "Node2Vec",
    ]
    methods += ["RandomEncoder", "RawFeatures"]
    assert sorted(afgrl.__all__) == sorted([*methods, "AfgrlError", "Dataset", "Graph", "UserError", "load"])
    for name in afgrl.__all__:
        assert getattr(afgrl, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = afgrl.nothing


def test_help_does_not_wait_for_pytorch():
    code = "import sys, afgrl.cli; assert 'torch' not in sys.modules and 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
