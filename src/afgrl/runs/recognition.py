"""Whether a folder was made by this program, which then may remove its own files from it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

from afgrl.data.leftovers import unfinished
from afgrl.runs.replace import holds_old_run

CONFIG = "config.toml"
HEADER = "# Use only its settings: afgrl fit SOURCE --config THIS_FILE"  # in every config.toml of a run
DATASET_FILES = ("graph.safetensors", "nodes.parquet", "data.json")  # nobody else has all three


def is_run_folder(path: Path, is_own: Callable[[str], bool]) -> bool:
    """Whether a folder is a run: complete, damaged, being replaced, or with unfinished writes only.

    ``is_own`` accepts the names of files that afgrl writes. Other programs have a config.toml too.
    """
    if not path.is_dir():
        return False
    if _is_config_of_run(path / CONFIG) or all((path / name).is_file() for name in DATASET_FILES):
        return True
    if any(_is_config_of_run(folder / CONFIG) for folder in holds_old_run(path)):
        return True
    names = [file.name for file in path.iterdir()]
    return bool(names) and all(unfinished(name) and is_own(name) for name in names)


def _is_config_of_run(file: Path) -> bool:
    """By its contents, or if they are damaged by the comment at their beginning."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    try:
        table = tomllib.loads(text).get("run")
    except (ValueError, RecursionError):
        table = None
    return HEADER in text or (isinstance(table, dict) and "method" in table)
