"""What the commands ask about: a run, its folder, or a fitted estimator, which is saved for as long as it is asked."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from afgrl.estimators.base import MethodEstimator
from afgrl.runs.folder import Run

RunFolder = Run | str | Path
Model = RunFolder | MethodEstimator


@contextmanager
def as_runs(models: Sequence[Model]) -> Iterator[list[Run]]:
    """Estimators are saved under the names of their methods, and removed at the end."""
    with tempfile.TemporaryDirectory() as folder:
        yield [_as_run(model, Path(folder)) for model in models]


def opened(run: RunFolder) -> Run:
    return run if isinstance(run, Run) else Run.open(Path(run))


def _as_run(model: Model, folder: Path) -> Run:
    if not isinstance(model, MethodEstimator):
        return opened(model)
    run = Run.create_unused(folder, model.method)
    model.save(run.path)
    return run
