"""Folders that are claimed, and whose files make room only for what came to its end."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

from afgrl.errors import UserError

FORMER = ".former"  # where files that are being replaced wait for the end of the new ones


def make(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_be_made(path, error) from None


def claim(path: Path) -> bool:
    """Make a folder that is not there yet; whoever makes it first has it."""
    try:
        path.mkdir()
    except FileExistsError:
        return False
    except OSError as error:
        raise _cannot_be_made(path, error) from None
    return True


def _cannot_be_made(path: Path, error: OSError) -> UserError:
    return UserError(f"The run folder {str(path)!r} cannot be made: {error.strerror}.")


def named(path: Path, files: Iterable[str], folders: Iterable[str], *, last: str) -> list[Path]:
    """What of a folder has one of these names, or was about to when its writer died (``replace_file``)."""
    found = [file for file in path.iterdir() if _is_named(file.name, folders if _is_folder(file) else files)]
    return sorted(found, key=lambda file: file.name == last)


def _is_folder(file: Path) -> bool:
    return file.is_dir() and not file.is_symlink()


def _is_named(name: str, patterns: Iterable[str]) -> bool:
    unfinished = re.fullmatch(r"\.(.+)\.\d+", name)
    return any(fnmatchcase(unfinished[1] if unfinished else name, pattern) for pattern in patterns)


def set_aside(path: Path, own: list[Path], *, finished: bool) -> None:
    """Make room for new files. Of files that never came to their end nothing is kept if others wait already."""
    try:
        if (path / FORMER).is_dir() and not finished:
            _remove(own)
            return
        forget_former(path)
        (path / FORMER).mkdir()
        for file in own:
            file.rename(path / FORMER / file.name)
    except OSError as error:
        raise UserError(f"The run {str(path)!r} cannot be replaced: {error.strerror}.") from None


def bring_back(path: Path, own: list[Path]) -> None:
    """Put the files that wait, if there are any, in the place of ``own``."""
    if (path / FORMER).is_dir():
        _remove(own)
        for file in (path / FORMER).iterdir():
            file.rename(path / file.name)
        (path / FORMER).rmdir()


def forget_former(path: Path) -> None:
    if (path / FORMER).is_dir():
        shutil.rmtree(path / FORMER)


def _remove(files: list[Path]) -> None:
    for file in files:
        if _is_folder(file):
            shutil.rmtree(file)
        else:
            file.unlink()
