"""One writer per run, among all processes: a lock of the operating system, released when its holder ends, however it
ends. Readers take none.

The locked file is beside the run folder, ``.NAME.lock``, and only exists while a command writes: a lock inside the
folder would be gone when someone deletes or replaces the folder of a run that is still being trained. Where no file
can be made beside the folder, the folder itself is locked; where the file system has no locks, there is none.
"""

from __future__ import annotations

import functools
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from afgrl.errors import UserError
from afgrl.runs.invocation import running_command

PATIENCE = 1.0  # seconds; a reader that cleans a run after a killed process holds its lock for a moment
PAUSE = 0.05
WINDOWS_PLACE = 1 << 30  # the locked byte: on Windows nobody else can read it, so it is behind what the file says

_held: set[tuple[str, int, int]] = set()  # paths, each with the process and thread that writes there


class HasPath(Protocol):
    @property
    def path(self) -> Path: ...


P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R", bound=HasPath)


def writes_run(function: Callable[Concatenate[R, P], T]) -> Callable[Concatenate[R, P], T]:
    """For a function that writes the run it is given: nobody else writes that run meanwhile."""

    @functools.wraps(function)
    def alone(run: R, /, *arguments: P.args, **keywords: P.kwargs) -> T:
        with writing(run.path):
            return function(run, *arguments, **keywords)

    return alone


@contextmanager
def writing(path: Path, *, patience: float | None = None) -> Iterator[None]:
    """Be the only one who writes the run in this folder, which need not exist yet; ``UserError`` if someone else is.
    Inside, the same thread may do so again."""
    with _lock(path, PATIENCE if patience is None else patience) as other:
        if other is not None:
            raise UserError(f"The run {str(path)!r} is being written by {other}; wait for it to end, or stop it.")
        yield


@contextmanager
def writing_if_free(path: Path) -> Iterator[bool]:
    """The same for what can as well be left undone: False if someone else writes."""
    with _lock(path, 0.0) as other:
        yield other is None


@contextmanager
def _lock(path: Path, patience: float) -> Iterator[str | None]:
    """None if this thread holds the lock of a folder now, otherwise who does."""
    folder = Path(os.path.realpath(path))
    key = (str(folder), os.getpid(), threading.get_ident())
    if key in _held:
        yield None
        return
    new_parents = [parent for parent in folder.parents if not os.path.exists(parent)]
    other, descriptor, file = _acquire(folder, time.monotonic() + patience)
    try:
        if other is None:
            _held.add(key)
        yield other
    finally:
        _held.discard(key)
        if descriptor is not None:
            _release(descriptor, file)
        for parent in new_parents:
            with suppress(OSError):  # it has the run now
                parent.rmdir()


def _acquire(folder: Path, deadline: float) -> tuple[str | None, int | None, Path]:
    """Who else holds the lock, or our descriptor of the locked file; neither where nothing can be locked."""
    while True:
        descriptor, file = _open(folder)
        if descriptor is None:
            return None, None, file
        try:
            _lock_file(descriptor)
        except (BlockingIOError, PermissionError):
            os.close(descriptor)
            if time.monotonic() >= deadline:
                return _holder(file), None, file
        except OSError:  # a file system without locks
            _release(descriptor, file)
            return None, None, file
        else:
            if _is_still(file, descriptor):
                _sign(descriptor)
                return None, descriptor, file
            os.close(descriptor)  # the holder before us has removed it
            continue
        time.sleep(PAUSE)


def _open(folder: Path) -> tuple[int | None, Path]:
    beside = folder.parent / f".{folder.name}.lock"
    with suppress(OSError):  # creating the run will say why the folder cannot be made
        folder.parent.mkdir(parents=True, exist_ok=True)
    for file, flags in ((beside, os.O_RDWR | os.O_CREAT), (beside, os.O_RDONLY), (folder, os.O_RDONLY)):
        with suppress(OSError):
            return os.open(file, flags, 0o666), file
    return None, folder


if sys.platform == "win32":
    import msvcrt

    def _lock_file(descriptor: int) -> None:
        os.lseek(descriptor, WINDOWS_PLACE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)

else:
    import fcntl

    def _lock_file(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_still(file: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(file), os.fstat(descriptor))
    except OSError:
        return False


def _release(descriptor: int, file: Path) -> None:
    """Remove the file while it is locked, so that nobody else has locked it; Windows cannot remove an open file."""
    if sys.platform == "win32":
        os.close(descriptor)
    with suppress(OSError):  # it is the folder
        file.unlink()
    if sys.platform != "win32":
        os.close(descriptor)


def _sign(descriptor: int) -> None:
    """Say who holds the lock, for the sentence that others get."""
    words = [running_command(), os.getpid(), socket.gethostname(), time.strftime("%Y-%m-%d %H:%M:%S")]
    with suppress(OSError):  # the folder, or a full disk: then nobody learns it
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps(words).encode())


def _holder(file: Path) -> str:
    try:
        command, process, host, since = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # it has just begun, or could not say
        return "another command"
    return f"{command!s} (process {process} on {host}, since {since})"
