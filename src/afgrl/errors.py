"""Errors that are one sentence: what is wrong, what was given, what is possible."""

from __future__ import annotations

import difflib
import errno
import re
from collections.abc import Iterable

DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT)  # of an OSError
# What a user can change by giving another name, so it is invalid input; a failing disk is not.
ABOUT_THE_NAME = (
    errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EACCES, errno.EPERM, errno.EROFS,
)  # fmt: skip
IMPORTED_WHEN_NEEDED = ("matplotlib", "networkx", "torch_geometric")
MAX_LISTED = 10  # possible names in a message
MAX_COMPARED = 100_000  # names searched for a close match; more would take seconds


LONG_QUOTE = re.compile(r"(['\"])([^'\"]{200})[^'\"]{200,}\1")  # an id or a cell can have a million characters


def in_one_line(sentence: str) -> str:
    """Without the line breaks that a file name may have, and without most of a quoted value that is very long."""
    return LONG_QUOTE.sub(r"\1\2…\1", "\\n".join(sentence.splitlines()))


class AfgrlError(Exception):
    """An internal failure; the command line exits with code 1."""

    def __init__(self, sentence: str = "") -> None:
        super().__init__(in_one_line(sentence))


class UserError(AfgrlError, ValueError):
    """Invalid input; the command line prints the sentence and exits with code 2."""


class Interrupted(AfgrlError):
    """Training was asked to stop and has saved a checkpoint; the command line exits with code 130."""


def disk_problem(error: OSError) -> str:
    """What is wrong, and with which file, as the beginning of a sentence."""
    return f"{error.strerror or error}: {error.filename!r}" if error.filename else str(error)


def disk_error(error: OSError) -> AfgrlError:
    """The sentence about a full disk, a folder without write permission."""
    advice = "; free some space, then repeat the command" if error.errno in DISK_IS_FULL else ""
    return (UserError if error.errno in ABOUT_THE_NAME else AfgrlError)(f"{disk_problem(error)}{advice}.")


def missing_package(error: ModuleNotFoundError) -> UserError | None:
    """The sentence about a package that only some commands need; None for any other, without which nothing works."""
    package = (error.name or "").partition(".")[0]
    if package not in IMPORTED_WHEN_NEEDED:
        return None
    return UserError(f"This needs {package}, which is not installed: pip install {package}.")


def unknown(what: str, given: str, possible: Iterable[str]) -> UserError:
    """The error for an unknown name, with the closest known one."""
    return UserError(f"Unknown {what} {given!r}; {suggestion(given, possible)}")


def suggestion(given: str, possible: Iterable[str]) -> str:
    """The closest name, or all, as the end of a sentence."""
    names = sorted(str(name) for name in possible)
    close = difflib.get_close_matches(given, names[:MAX_COMPARED], n=1)
    more = f" and {len(names) - MAX_LISTED:,} more" if len(names) > MAX_LISTED else ""
    return f"did you mean {close[0]!r}?" if close else f"possible values: {', '.join(names[:MAX_LISTED])}{more}."
