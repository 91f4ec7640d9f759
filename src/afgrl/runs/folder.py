"""A run is a folder; this and the parts beside it are the one place that knows its file names."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from afgrl.data.leftovers import remove_leftovers
from afgrl.errors import Interrupted, UserError
from afgrl.runs import replace
from afgrl.runs.files import StorageError
from afgrl.runs.lock import writing_if_free
from afgrl.runs.own_files import is_own_name, own_entries
from afgrl.runs.parts.dataset import DatasetFiles
from afgrl.runs.parts.results import ResultFiles
from afgrl.runs.parts.training import EVALUATIONS, HISTORY, NOT_FINISHED, TrainingFiles
from afgrl.runs.readers import check, reading
from afgrl.runs.recognition import CONFIG, is_run_folder
from afgrl.runs.versions import FORMAT, READABLE

__all__ = ["EVALUATIONS", "FORMAT", "HISTORY", "NOT_FINISHED", "Run"]


@dataclass(frozen=True)
class Run(DatasetFiles, TrainingFiles, ResultFiles):
    """One training run and everything computed from it: how the folder begins, is recognized and is replaced; the
    classes above have its contents. Files are written to a temporary name and renamed, except for the two logs, which
    grow line by line."""

    @classmethod
    def create(cls, path: Path, *, force: bool = False) -> Run:
        """A new run folder. ``force`` replaces an existing run, once the new one is complete; files that afgrl did not
        write are kept, and a folder that is not a run is never touched."""
        run = cls(path)
        if cls.check_unused(path, force=force):
            replace.set_aside(path, run._own_entries, complete=run.is_complete)
        replace.make_folder(path)
        return run

    @classmethod
    def check_unused(cls, path: Path, *, force: bool = False) -> bool:
        """Whether there is a run that ``create`` replaces; an error if it may not."""
        run = cls(path)
        run.clean()
        if not path.exists() or (path.is_dir() and not any(path.iterdir())):
            return False
        if not run._is_run():
            raise UserError(f"{str(path)!r} exists and is not a run; choose another folder with --out.")
        if not force:
            choices = "--resume to continue it, --force to replace it, or another --out"
            raise UserError(f"The run {str(path)!r} exists; use {choices}.")
        return True

    @classmethod
    def open(cls, path: Path) -> Run:
        """An existing run of a format that this version reads."""
        run = cls(path)
        run.clean()
        if not run._is_run() or not (path / CONFIG).is_file():
            raise UserError(f"{str(path)!r} is not a run (no config.toml of one); create a run with `afgrl fit`.")
        config = run._config()
        found = config.get("format", 1)
        with reading(path / CONFIG):
            check(isinstance(config.get("run"), dict), "it has no table [run]")
            check(type(found) is int, f"its format is {found!r}")
        if found not in READABLE:
            made_by = "an older" if found < FORMAT else "a newer"
            raise UserError(
                f"The run {str(path)!r} was made by {made_by} version of afgrl (format {found}, this is {FORMAT}); "
                "train it again with `afgrl fit … --force`."
            )
        return run

    @classmethod
    def create_unused(cls, parent: Path, name: str) -> Run:
        """A new run in ``parent/name``, or in the first of ``name-2``, ``name-3`` … that does not exist."""
        replace.make_folder(parent)
        candidates: Iterator[str] = (f"{name}-{i}" if i > 1 else name for i in range(1, sys.maxsize))
        return next(cls(parent / candidate) for candidate in candidates if replace.claim_folder(parent / candidate))

    def clean(self) -> None:
        """Remove what a killed process left: an unfinished replacement, a replaced run, temporary files, the checkpoint
        of a complete run."""
        unneeded = self.is_complete and self.has_checkpoint
        if not (self._is_run() and (unneeded or replace.has_leftovers(self.path))):
            return
        with writing_if_free(self.path) as nobody_else:
            if nobody_else:
                replace.put_back(self.path, self._own_entries)
                if self.is_complete:
                    self.drop_checkpoint()
                    replace.drop_previous(self.path)
                remove_leftovers(self.path, is_own_name)

    def is_unfinished_save(self) -> bool:
        """Whether this is what is left of saving a model from Python when the process ended before it was complete."""
        if not (self._is_run() and (self.path / CONFIG).is_file()) or self.is_complete or self.has_checkpoint:
            return False
        try:
            return not self.spec().source
        except UserError:
            return False

    def _is_run(self) -> bool:
        return is_run_folder(self.path, is_own_name)

    @contextmanager
    def replacing(self, *, resumable: bool = True) -> Iterator[None]:
        """Restore the replaced run if the new one fails; one that was interrupted or lacks disk space stays, since it
        can be resumed, unless ``resumable`` is False."""
        try:
            yield
        except BaseException as error:
            stays = resumable and isinstance(error, (Interrupted, KeyboardInterrupt, StorageError))
            if not (stays and replace.has_begun(self.path)):
                replace.restore_previous(self.path, self._own_entries)
            raise

    def _own_entries(self) -> list[Path]:
        return own_entries(self.path)
