"""How the user called this program, so that a printed command can be pasted."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

NAMES = ("afgrl", "afgrl.exe")


def pasteable(*words: object) -> str:
    """A command of this program as a line of a shell."""
    return f"{_program()} {shlex.join(str(word) for word in words)}"


def running_command() -> str:
    """What runs now, for others: the command, or the Python program that uses this library."""
    name = Path(sys.argv[0]).name
    if name in NAMES or _is_module():
        return f"`{shlex.join(['afgrl', *sys.argv[1:]])}`"
    return f"the Python program {name!r}" if name not in ("", "-c") else "a Python program"


def _program() -> str:
    """``afgrl`` if the search path finds the program that runs, else its path, or ``python -m afgrl``."""
    called = Path(sys.argv[0])
    if called.name in NAMES and called.is_file():
        return _shortest(called)
    if _is_module():
        return f"{_shortest(Path(sys.executable))} -m afgrl"
    return "afgrl"  # called from Python


def _is_module() -> bool:
    """Whether this is ``python -m afgrl``."""
    called = Path(sys.argv[0])
    return called.name == "__main__.py" and called.parent.name == "afgrl"


def _shortest(file: Path) -> str:
    """The name of a program if that is enough, else its path from the working directory, else its absolute path."""
    found = shutil.which(file.name)
    if found is not None and Path(found).absolute() == file.absolute():
        return file.name
    inside = file.absolute().is_relative_to(Path.cwd())
    shown = os.path.relpath(file) if inside else str(file.absolute())
    return shlex.quote(shown if os.sep in shown else os.path.join(os.curdir, shown))
