"""What all parts of a run folder need: its path, and how its files are read and replaced."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from afgrl.amounts import counted
from afgrl.errors import UserError
from afgrl.runs import dataset_files
from afgrl.runs.files import replace_file
from afgrl.runs.lock import writing
from afgrl.runs.readers import check, n_rows, reading


@dataclass(frozen=True)
class RunFiles:
    path: Path

    def reading(self, name: str) -> AbstractContextManager[None]:
        """Around the use of what a file contains: what is wrong with it becomes one sentence about this file."""
        return reading(self.path / name)

    def writing(self) -> AbstractContextManager[None]:
        """Around everything that writes the run: nobody else does meanwhile."""
        return writing(self.path)

    def writing_file(self, file: Path) -> AbstractContextManager[None]:
        """The same around what writes a file of the user's choice, if it is in the run."""
        inside = file.parent.resolve() == self.path.resolve()
        return self.writing() if inside else nullcontext()

    def _need(self, name: str, reason: str) -> None:
        if not (self.path / name).is_file():
            raise UserError(f"The run {str(self.path)!r} has no {name}: {reason}.")

    def _check_n(self, name: str, n: int) -> None:
        """That a file has as many entries as the run has nodes."""
        if (self.path / dataset_files.NODES).is_file():
            expected = n_rows(self.path / dataset_files.NODES)
            with self.reading(name):
                check(
                    n == expected,
                    f"it has {counted(n, 'entry', 'entries')}, but the run has {counted(expected, 'node')}",
                )

    def _replace(self, name: str, write: Callable[[Path], Any]) -> None:
        replace_file(self.path / name, write)
