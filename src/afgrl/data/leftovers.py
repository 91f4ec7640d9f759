"""Names of temporary files, and which of them belong to a process that was killed."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

UNFINISHED = re.compile(r"\.(.+)\.(\d+)")


def temporary_path(final: Path) -> Path:
    """Where this process writes a file before it is renamed: ``.NAME.PID`` in the same folder."""
    return final.with_name(f".{final.name}.{os.getpid()}")


def unfinished(name: str) -> tuple[str, int] | None:
    """The final name and the process of a temporary name; None for any other name."""
    found = UNFINISHED.fullmatch(name)
    return (found[1], int(found[2])) if found else None


def is_running(process: int) -> bool:
    """Whether a process exists on this machine. When in doubt it does, so that nothing of it is removed."""
    if sys.platform == "win32":  # there, the call below would end the process
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # it belongs to another user, or the number is no process id
        return True
    return True


def remove_leftovers(folder: Path, is_own: Callable[[str], bool]) -> None:
    """Remove the temporary files of processes that ended, if ``is_own`` accepts their final name."""
    with suppress(OSError):  # a folder that cannot be written keeps them
        for file in folder.iterdir():
            found = unfinished(file.name)
            if found and is_own(found[0]) and not is_running(found[1]):
                remove(file)


def remove(file: Path) -> None:
    """Remove a file, a link or a folder."""
    if is_folder(file):
        shutil.rmtree(file)
    else:
        file.unlink(missing_ok=True)


def is_folder(file: Path) -> bool:
    return file.is_dir() and not file.is_symlink()
