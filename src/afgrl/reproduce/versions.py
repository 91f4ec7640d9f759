"""What scores depend on besides settings: the data, and the code."""

from __future__ import annotations

import ast
import hashlib
import io
import json
import tokenize
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import afgrl
from afgrl.data.digest import arrays_of
from afgrl.methods import method_class
from afgrl.reproduce.cells import loaded


@cache
def data_version(name: str, data_dir: str | None) -> str:
    dataset = loaded(name, data_dir)
    assert dataset.splits is not None
    arrays = [*arrays_of(dataset.graph.x), dataset.y, dataset.splits.roles]
    return " ".join(map(str, [dataset.graph.fingerprint, dataset.graph.x.shape, *map(_digest, arrays)]))


def _digest(array: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


# What reads or keeps data shows in the data itself, whose version is the other half.
SEEN_IN_DATA = ("afgrl.data", "afgrl.graph", "afgrl.errors")


@cache
def code_version(method: str) -> str:
    """Of all that a method's scores depend on: the modules it, the loop and the evaluation import, without comments."""
    roots = [method_class(method).__module__, "afgrl.train", "afgrl.evaluate", "afgrl.lessons", "afgrl.reproduce.looks"]
    seen: dict[str, str] = {}
    while roots:
        module = roots.pop()
        file = _file(module)
        if module in seen or file is None or module.startswith(SEEN_IN_DATA):
            continue
        text = file.read_text(encoding="utf-8")
        tree = ast.parse(text)
        seen[module] = _without_remarks(text, tree)
        if module != "afgrl.methods":  # which imports them all
            roots += [name for node in ast.walk(tree) for name in _imported(node)]
    return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()[:16]


def _file(module: str) -> Path | None:
    path = Path(afgrl.__file__).parent.joinpath(*module.split(".")[1:])
    files = [path.with_suffix(".py"), path / "__init__.py"]
    return next((file for file in files if file.is_file()), None) if module.startswith("afgrl.") else None


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom) and node.module:
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def _without_remarks(text: str, tree: ast.Module) -> str:
    """The lines without comments and docstrings. Not the syntax tree, which is another in each version of Python."""
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            first, last = node.body[0].lineno, node.body[0].end_lineno or node.body[0].lineno
            lines[first - 1 : last] = [""] * (last - first + 1)
    return "\n".join(line.rstrip() for line in lines if line.strip())
