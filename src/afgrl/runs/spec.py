"""What a run is asked to be: the one description that the command line, `reproduce` and the benchmarks share."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from afgrl import DEFAULT_METHOD
from afgrl.config import Settings, recipe, resolve
from afgrl.data import Dataset, load
from afgrl.data.sources import names
from afgrl.data.tables.options import ReadOptions
from afgrl.data.unpacking import home_expanded, is_file_or_folder
from afgrl.errors import UserError
from afgrl.methods import method_class

# Command-line options of ReadOptions fields that have another name.
OPTION_NAMES = {
    "columns": "--column", "source": "--source-column", "target": "--target-column",
    "keep_default_na": "--no-default-na",
}  # fmt: skip


@dataclass(frozen=True)
class EvaluationPlan:
    """How thoroughly a run is evaluated, during and after training."""

    every: int = 0  # epochs between periodic evaluations, from which best-epoch evaluation chooses; 0: none
    n_splits: int | None = None  # evaluate on the first splits only; None: on all
    n_fits: int = 10  # k-means fits
    n_init: int = 10  # restarts per fit in periodic evaluations


@dataclass(frozen=True)
class RunSpec:
    """Everything needed to repeat a run; config.toml stores it.

    ``settings`` override those of the recipe. Once resolved against a graph they are complete, and the recipe only
    says where they came from.
    """

    source: str  # a dataset's name, or the path of a file or folder; empty for a run saved from Python
    method: str = DEFAULT_METHOD
    recipe: str = "default"
    settings: Mapping[str, Any] = field(default_factory=dict)
    data_dir: str | None = None
    splits: str = "auto"
    directed: bool | None = None  # None: as in the paper
    evaluation: EvaluationPlan = EvaluationPlan()
    read: ReadOptions = field(default_factory=ReadOptions)  # how to read a user's files

    def __hash__(self) -> int:
        return hash(self.to_toml())  # settings are a dictionary

    def load(self, data_dir: str | None = None) -> Dataset:
        if not self.source:
            raise UserError("This run was saved from Python, so it has no source to load.")
        return load(
            self.source, data_dir=data_dir or self.data_dir, splits=self.splits, directed=self.directed,
            options=self.read,
        )  # fmt: skip

    def resolved(self, dataset: Dataset) -> tuple[RunSpec, Settings]:
        """The spec with complete settings, and those settings as an object."""
        cls = method_class(self.method)
        layers: list[Mapping[str, Any]] = [recipe(self.method, self.recipe, dataset.name)]
        if cls.needs_labels:
            if dataset.y is None or dataset.splits is None:
                raise UserError(f"{dataset.name!r} has no labels, which the method {self.method!r} learns from.")
            layers.append(cls.label_settings(dataset.n_classes, len(dataset.splits)))
        settings = resolve(cls.settings_class, *layers, self.settings, graph=dataset.graph)
        return replace(self, settings=settings.model_dump()), settings

    @property
    def run_name(self) -> str:
        """The default name of the run folder."""
        method = "" if self.method == DEFAULT_METHOD else f"-{self.method}"
        return short_name(self.source) + method + ("" if self.recipe == "default" else f"-{self.recipe}")

    def to_toml(self) -> str:
        """The tables [run], [run.evaluation], [run.read] and [settings]."""
        own = {name: getattr(self, name) for name in ("source", "method", "recipe", "data_dir", "splits", "directed")}
        tables = {
            "run": own,
            "run.evaluation": asdict(self.evaluation),
            "run.read": self.read.given,
            "settings": dict(self.settings),
        }
        lines = []
        for name, table in tables.items():
            lines += [f"[{name}]"]
            lines += [f"{key} = {_toml(value)}" for key, value in table.items() if value is not None]
            lines += [""]
        return "\n".join(lines)

    @classmethod
    def from_toml(cls, tables: Mapping[str, Any]) -> RunSpec:
        try:
            own = dict(tables["run"])
            evaluation, read = dict(own.pop("evaluation", {})), dict(own.pop("read", {}))
            read |= {name: tuple(value) for name, value in read.items() if isinstance(value, list)}
            spec = cls(
                **own, settings=tables.get("settings", {}), evaluation=EvaluationPlan(**evaluation),
                read=ReadOptions(**read),
            )  # fmt: skip
            # A dataclass does not check its types; as JSON, because strict Python input would have to be objects.
            TypeAdapter(RunSpec).validate_json(json.dumps(asdict(spec)), strict=True)
        except (KeyError, TypeError, ValueError) as error:
            reason = _first_problem(error) if isinstance(error, ValidationError) else str(error)
            raise UserError(f"The run description in config.toml cannot be read: {reason}.") from None
        return spec

    def command(self, config: Path | None = None) -> str | None:
        """The command line that repeats the run with the settings of a file, or with its own overrides; None for a run
        saved from Python."""
        if not self.source:
            return None
        words: list[Any] = ["afgrl", "fit", self.source]
        words += ["--method", self.method] if self.method != DEFAULT_METHOD else []
        words += ["--recipe", self.recipe] if self.recipe != "default" else []
        words += ["--data-dir", self.data_dir] if self.data_dir else []
        words += ["--splits", self.splits] if self.splits != "auto" else []
        words += ["--undirected"] if self.directed is False else []
        words += ["--evaluate-every", self.evaluation.every] if self.evaluation.every else []
        for name, value in self.read.given.items():
            option = OPTION_NAMES.get(name, "--" + name.replace("_", "-"))
            for item in value if isinstance(value, tuple) else [value]:
                words += [option] if isinstance(item, bool) else [option, item]
        if config is not None:
            words += ["--config", config]
        else:
            words += [word for name, value in self.settings.items() for word in ("--set", f"{name}={value}")]
        return shlex.join(str(word) for word in words)


def absolute_source(source: str) -> str:
    """A source that can be found from any working directory: a dataset's name, or an absolute path."""
    if source in names():
        return source
    path = home_expanded(source)
    return str(path.absolute()) if is_file_or_folder(path) else source


def short_name(source: str) -> str:
    """The last part of a source, for file names; the name of the folder for ``.``."""
    return Path(source).resolve().stem or "graph"


def _first_problem(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(str(part) for part in first['loc'])} cannot be {first['input']!r}"


def _toml(value: Any) -> str:
    """A scalar or a list of scalars; JSON writes them like TOML, except for the character DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
