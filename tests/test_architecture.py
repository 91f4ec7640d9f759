"""The layers, the absence of import cycles, and the public names."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import afgrl

SOURCE = Path(afgrl.__file__).parent
# A module imports only from its own layer or from layers before it in this list (docs/architecture.md).
LAYERS = (
    ("amounts", "errors", "csr", "config", "notebook", "graph"),
    ("ops",),
    ("nn", "methods", "recipes"),
    ("data", "evaluate"),
    ("train", "runs", "cost"),
    ("experiment", "analysis", "estimators"),
    ("report", "explore", "reproduce", "bench", "onnx", "doctor"),
    ("cli",),
)
LAYER = {part: number for number, parts in enumerate(LAYERS, 1) for part in parts}


@cache
def modules():
    """Every module of the package by its dotted name without the leading ``afgrl.``."""
    found = {}
    for file in SOURCE.rglob("*.py"):
        name = ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix("__init__").rstrip(".")
        if name not in ("", "__main__"):
            found[name] = file
    return found


@cache
def imports(name):
    """The modules of the package that a module imports, also late and for type checking."""
    found = set()
    for node in ast.walk(ast.parse(modules()[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return {resolved for one in found if (resolved := module_of(one)) and resolved != name}


def module_of(dotted):
    """The module that a dotted name is or is defined in; None outside of the package."""
    name = dotted.removeprefix("afgrl.") if dotted.startswith("afgrl.") else ""
    while name and name not in modules():
        name = name.rpartition(".")[0]
    return name or None


def part(name):
    return name.split(".")[0]


@pytest.mark.parametrize("name", sorted(modules()))
def test_a_module_imports_only_its_own_layer_and_those_before_it(name):
    above = {one for one in imports(name) if LAYER[part(one)] > LAYER[part(name)]}
    assert not above


def test_there_are_no_import_cycles():
    """Late imports and imports for type checking count too; a package and its modules are separate modules."""
    done, path = set(), []

    def visit(name):
        if name in path:
            pytest.fail(f"import cycle: {' → '.join([*path[path.index(name) :], name])}")
        if name in done:
            return
        path.append(name)
        for other in sorted(imports(name)):
            visit(other)
        path.pop()
        done.add(name)

    for name in sorted(modules()):
        visit(name)


def test_every_part_has_one_layer_and_every_layer_is_used():
    parts = {part(name) for name in modules()}
    assert parts == LAYER.keys()
    assert sum(map(len, LAYERS)) == len(LAYER) <= 25


def test_no_module_has_the_name_of_a_function_or_class_it_exports():
    for name, file in modules().items():
        defined = {
            node.name
            for node in ast.parse(file.read_text(encoding="utf-8")).body
            if isinstance(node, (ast.FunctionDef, ast.ClassDef))
        }
        exported = defined | {alias for alias in imported_names(file) if file.name == "__init__.py"}
        own = name.rpartition(".")[2]
        assert own not in exported, f"{name} exports a function of its own name"


def imported_names(file):
    """The names that a package re-exports."""
    return {
        alias.asname or alias.name
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("afgrl")
        for alias in node.names
    }


def test_training_does_not_import_the_benchmark_harness():
    code = (
        "import sys, afgrl.experiment.training; assert not any(name.startswith('afgrl.bench') for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_public_names():
    estimators = [
        "AFGRL", "BGRL", "CCASSG", "DGI", "DeepWalk", "DeepWalkFeatures", "GCA", "GMI", "GRACE", "GraphMAE2", "Hops",
        "MVGRL", "NS4GC", "Node2Vec", "NodeEmbedder", "PPR", "RandomEncoder", "RawFeatures", "SGRL", "SIGNA", "SVD",
    ]  # fmt: skip
    converters = ["from_networkx", "from_pandas", "from_pyg", "from_scipy"]
    functions = [
        "add_nodes", "catalog", "check", "cluster", "compare", "compare_methods", "estimate", "examine",
        "export_encoder", "knn_graph", "load", "measure_speed", "quality", "remove_nodes", "reproduce_results",
        "search", "serve_explorer", "write_report",
    ]  # fmt: skip
    expected = [*estimators, *converters, *functions, "AfgrlError", "Dataset", "Graph", "NodePlot", "UserError"]
    assert sorted(afgrl.__all__) == sorted(expected)
    assert afgrl._PUBLIC.keys() == set(expected)
    for name in afgrl.__all__:
        assert getattr(afgrl, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = afgrl.nothing


def test_help_does_not_load_pytorch():
    code = "import sys, afgrl.cli.entry_point; assert 'torch' not in sys.modules and 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
