"""Several methods on one source, each in its own run folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from afgrl.config import check_settings
from afgrl.errors import UserError
from afgrl.experiment.model import complete_settings
from afgrl.experiment.training import Display, fit, resume
from afgrl.methods import method_class
from afgrl.runs.folder import Run
from afgrl.runs.spec import RunSpec


def fit_each(
    specs: Sequence[RunSpec], folder: Path, device: torch.device, *, force: bool = False,
    display: Display | None = None, message: Callable[[str], Any] = lambda sentence: None,
) -> list[Run]:  # fmt: skip
    """A run of each spec in ``folder/METHOD``. Existing runs with the same settings are used, and unfinished ones
    continued; ``force`` trains all of them again."""
    methods = [spec.method for spec in specs]
    if len(set(methods)) < len(methods):
        raise UserError(f"Each method can be given once, not {', '.join(methods)}.")
    for spec in specs:  # what is wrong with one of them fails before the first training
        settings_class = method_class(spec.method).settings_class
        try:
            check_settings(settings_class, spec.settings)
        except UserError as error:
            raise UserError(f"These settings do not suit the method {spec.method!r}. {error}") from None
    return [_fitted(spec, folder / spec.method, device, force, display, message) for spec in specs]


def _fitted(
    spec: RunSpec, path: Path, device: torch.device, force: bool, display: Display | None, message: Callable[[str], Any]
) -> Run:
    if force or not (path / "config.toml").is_file():
        message(f"Training {spec.method} in {path}.")
        return fit(spec, path, device, force=force, display=display, message=message)
    run = Run.open(path)
    _check_same(spec, run)
    if run.is_complete:
        message(f"Using the run {path}.")
        return run
    message(f"Continuing {spec.method} in {path}.")
    return resume(run, device, data_dir=spec.data_dir, display=display, message=message)


def _check_same(spec: RunSpec, run: Run) -> None:
    """That a run is what the spec asks for: what the spec leaves open has its default for the graph of the run."""
    found = run.spec()
    same = all(getattr(found, name) == getattr(spec, name) for name in ("source", "method", "recipe", "read"))
    if same:
        dataset = run.dataset(spec.data_dir) if run.data() else spec.load()  # killed before its dataset was saved
        same = spec.resolved(dataset)[1] == complete_settings(run)
    if not same:
        raise UserError(
            f"The run {str(run.path)!r} has another source, other options for reading it or other settings; use "
            "--force to train it again, or another --out."
        )
