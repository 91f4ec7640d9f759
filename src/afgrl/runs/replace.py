"""Creating run folders, and replacing a run only when the new one is complete."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

from afgrl.errors import UserError

PREVIOUS = ".previous"  # holds the files of the old run until the new one is complete


def make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_create(path, error) from None


def claim_folder(path: Path) -> bool:
    """Create a folder that does not exist yet; False if another process was first."""
    try:
        path.mkdir()
    except FileExistsError:
        return False
    except OSError as error:
        raise _cannot_create(path, error) from None
    return True


def _cannot_create(path: Path, error: OSError) -> UserError:
    return UserError(f"The run folder {str(path)!r} cannot be created: {error.strerror}.")


def matching_files(path: Path, files: Iterable[str], folders: Iterable[str], *, last: str) -> list[Path]:
    """The entries of a folder that match one of these patterns, or are unfinished writes of them (``replace_file``)."""
    found = [file for file in path.iterdir() if _matches(file.name, folders if _is_folder(file) else files)]
    return sorted(found, key=lambda file: file.name == last)


def _is_folder(file: Path) -> bool:
    return file.is_dir() and not file.is_symlink()


def _matches(name: str, patterns: Iterable[str]) -> bool:
    unfinished = re.fullmatch(r"\.(.+)\.\d+", name)
    return any(fnmatchcase(unfinished[1] if unfinished else name, pattern) for pattern in patterns)


def set_aside(path: Path, own: list[Path], *, complete: bool) -> None:
    """Move the files of a run away to make room for a new one. An incomplete run is deleted instead if the files of a
    complete one are already set aside."""
    try:
        if (path / PREVIOUS).is_dir() and not complete:
            _remove(own)
            return
        drop_previous(path)
        (path / PREVIOUS).mkdir()
        for file in own:
            file.rename(path / PREVIOUS / file.name)
    except OSError as error:
        raise UserError(f"The run {str(path)!r} cannot be replaced: {error.strerror}.") from None


def restore_previous(path: Path, own: list[Path]) -> None:
    """Put the files that were set aside, if any, back in the place of ``own``."""
    if (path / PREVIOUS).is_dir():
        _remove(own)
        for file in (path / PREVIOUS).iterdir():
            file.rename(path / file.name)
        (path / PREVIOUS).rmdir()


def drop_previous(path: Path) -> None:
    if (path / PREVIOUS).is_dir():
        shutil.rmtree(path / PREVIOUS)


def _remove(files: list[Path]) -> None:
    for file in files:
        if _is_folder(file):
            shutil.rmtree(file)
        else:
            file.unlink()
