"""What can go wrong, in one sentence each: what was wrong, what was given, what is possible."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MOST_NAMED = 10
MOST_COMPARED = 100_000  # names, which take a second


class AfgrlError(Exception):
    """Something failed that the user did not cause; the command line exits with 1."""


class UserError(AfgrlError, ValueError):
    """The user can mend this; the command line prints the sentence and exits with 2."""


class Interrupted(AfgrlError):
    """Training was asked to stop and has saved what is needed to go on; the command line exits with 130."""


def unknown(what: str, given: str, possible: Iterable[str]) -> UserError:
    """The error for a name nobody knows, with the nearest one that is known."""
    names = sorted(str(name) for name in possible)
    close = difflib.get_close_matches(given, names[:MOST_COMPARED], n=1)
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    hint = f"did you mean {close[0]!r}?" if close else f"possible are {', '.join(names[:MOST_NAMED])}{more}."
    return UserError(f"There is no {what} {given!r}; {hint}")
