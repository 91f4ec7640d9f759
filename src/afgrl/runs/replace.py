"""Creating run folders, and replacing a run only when the new one is complete.

While a run is replaced, its old files are in a hidden folder, whose name says how far the replacement is:

- ``.moving.PID``: the files are on their way, so both folders hold some of them;
- ``.aside.PID``: all old files are in it, and the new run has not begun;
- ``.previous``: the new run has begun and can be resumed.

From one name to the next it takes one rename. So if the process ends at any point, the next command finds the old run,
which it puts back, or the new one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from afgrl.data.leftovers import is_folder, is_running, remove, unfinished
from afgrl.errors import UserError

PREVIOUS, MOVING, ASIDE = ".previous", "moving", "aside"
OwnFiles = Callable[[], list[Path]]  # what afgrl wrote into the folder, now


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


def set_aside(path: Path, own: OwnFiles, *, complete: bool) -> None:
    """Move the files of a run away to make room for a new one. An incomplete run is deleted instead if the files of a
    complete one are already set aside."""
    aside = _folder(path, ASIDE)
    try:
        if (path / PREVIOUS).is_dir() and not complete:
            (path / PREVIOUS).rename(aside)
            _remove(own())
            return
        drop_previous(path)
        moving = _folder(path, MOVING)
        moving.mkdir()
        for file in own():
            moved = moving / file.relative_to(path)
            moved.parent.mkdir(parents=True, exist_ok=True)
            file.rename(moved)
        moving.rename(aside)
    except OSError as error:
        put_back(path, own)
        raise UserError(f"The run {str(path)!r} cannot be replaced: {error.strerror}.") from None
    except BaseException:
        put_back(path, own)
        raise


def begin(path: Path) -> None:
    """The new run has its config.toml, so from here on it is the one that is resumed."""
    if _folder(path, ASIDE).is_dir():
        _folder(path, ASIDE).rename(path / PREVIOUS)


def has_begun(path: Path) -> bool:
    return not _folder(path, ASIDE).is_dir()


def restore_previous(path: Path, own: OwnFiles) -> None:
    """Put the files that were set aside, if any, back in the place of the new run's."""
    if (path / PREVIOUS).is_dir():
        (path / PREVIOUS).rename(_folder(path, ASIDE))
    put_back(path, own)


def put_back(path: Path, own: OwnFiles) -> None:
    """Undo an unfinished replacement of this process, or of one that ended."""
    for kind, folder in _unfinished_replacements(path):
        moving = _folder(path, MOVING)
        if kind == ASIDE:
            _remove(own())  # of the new run
        folder.rename(moving)
        _merge(moving, path)


def has_leftovers(path: Path) -> bool:
    """Whether there is something that a killed process may have left, or that a living one is about to rename."""
    return any(file.name == PREVIOUS or unfinished(file.name) for file in path.iterdir())


def holds_old_run(path: Path) -> Iterator[Path]:
    """The folders in which the files of an old run may be."""
    yield path / PREVIOUS
    yield from (file for file in path.iterdir() if (unfinished(file.name) or ("", 0))[0] in (MOVING, ASIDE))


def drop_previous(path: Path) -> None:
    """Remove the old run. If it cannot be removed, or the process ends meanwhile, the next command does the rest."""
    for folder in (path / PREVIOUS, _folder(path, ASIDE)):
        shutil.rmtree(folder, ignore_errors=True)


def _unfinished_replacements(path: Path) -> list[tuple[str, Path]]:
    found = [(unfinished(file.name), file) for file in path.iterdir() if is_folder(file)]
    return [
        (name[0], file)
        for name, file in found
        if name and name[0] in (MOVING, ASIDE) and (name[1] == os.getpid() or not is_running(name[1]))
    ]


def _merge(folder: Path, other: Path) -> None:
    """Move what is in a folder into another one, which may have some of its folders: with what the user put there."""
    for file in folder.iterdir():
        if is_folder(file) and is_folder(other / file.name):
            _merge(file, other / file.name)
        else:
            file.rename(other / file.name)
    folder.rmdir()


def _folder(path: Path, kind: str) -> Path:
    return path / f".{kind}.{os.getpid()}"


def _remove(files: list[Path]) -> None:
    for file in files:
        remove(file)
