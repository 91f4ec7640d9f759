"""The checkpoints of several processes in a run folder: ``checkpoint-STEP``, a folder each; see
train/sharded_checkpoint.py."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from afgrl.data.leftovers import is_folder, remove

NAME, PATTERN = "checkpoint-{}", re.compile(r"checkpoint-(\d+)")
LAST_FILE = ".metadata"  # PyTorch writes it when all others are complete


def checkpoint_folder(run: Path, step: int) -> Path:
    return run / NAME.format(step)


def latest_folder(run: Path) -> Path | None:
    """The last complete checkpoint."""
    complete = [folder for folder in checkpoint_folders(run) if (folder / LAST_FILE).is_file()]
    return max(complete, key=_step) if complete else None


def checkpoint_folders(run: Path) -> list[Path]:
    return [folder for folder in run.iterdir() if PATTERN.fullmatch(folder.name)] if run.is_dir() else []


def own_files(folder: Path) -> list[Path]:
    """What PyTorch writes into a checkpoint; other programs have folders of such names too."""
    return [file for file in folder.iterdir() if file.name.startswith(LAST_FILE) or file.suffix == ".distcp"]


def drop_folder(folder: Path) -> None:
    if is_folder(folder):
        for file in sorted(own_files(folder), key=lambda file: file.name != LAST_FILE):
            remove(file)
        with suppress(OSError):  # it has files of the user
            folder.rmdir()


def drop_folders(run: Path, *, keep: Path | None = None) -> None:
    for folder in checkpoint_folders(run):
        if folder != keep:
            drop_folder(folder)


def _step(folder: Path) -> int:
    return int(folder.name.rpartition("-")[2])
