"""What a run was asked to be, and the words that ask for it again."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from afgrl.data import Dataset, load
from afgrl.data.files.options import Options
from afgrl.data.sources import names
from afgrl.errors import UserError


@dataclass(frozen=True)
class Order:
    """What a run was asked to be, besides its settings: the table [run] of its config.toml."""

    source: str
    method: str = "afgrl"
    recipe: str = "default"
    data_dir: str | None = None
    splits: str = "auto"
    directed: bool | None = None
    evaluate_every: int = 0  # epochs between the evaluations that the paper protocol picks from; 0 for none
    options: Options = field(default_factory=Options)  # what was told about a user's own files

    def load(self, data_dir: str | None = None) -> Dataset:
        if not self.source:
            raise UserError("This run was saved from Python, so it does not know the graph it came from.")
        return load(
            self.source, data_dir=data_dir or self.data_dir, splits=self.splits, directed=self.directed,
            options=self.options,
        )  # fmt: skip

    @property
    def run_name(self) -> str:
        """Of the run folder, where none is named."""
        return f"{short_name(self.source)}-{self.method}" + ("" if self.recipe == "default" else f"-{self.recipe}")

    def as_toml(self) -> dict[str, Any]:
        """The table [run] of config.toml; what was told about files stands beside the rest."""
        told = {f"file_{name}": value for name, value in vars(self.options).items() if value not in (None, ())}
        return {name: value for name, value in vars(self).items() if name != "options"} | told

    @classmethod
    def from_toml(cls, stored: dict[str, Any]) -> Order:
        told = {name.removeprefix("file_"): value for name, value in stored.items() if name.startswith("file_")}
        if "columns" in told:
            told["columns"] = tuple(told["columns"])
        asked = {name: value for name, value in stored.items() if not name.startswith("file_")}
        try:
            return cls(**asked, options=Options(**told))
        except TypeError as error:
            raise UserError(f"The table [run] of config.toml is of another version of afgrl: {error}.") from None


def located(source: str) -> str:
    """A source as it can be found from any folder: a dataset's name, or a whole path."""
    path = Path(source).expanduser()
    return str(path.absolute()) if source not in names() and path.exists() else source


def short_name(source: str) -> str:
    """Of a source, as a part of a file's name; that of its folder for ``.``"""
    return Path(source).resolve().stem or "graph"


def command(folder: Path, asked: dict[str, Any]) -> str | None:
    """The command line that repeats the run in a folder, by the table [run] of its config.toml; None for one that was
    saved from Python."""
    if not asked.get("source"):
        return None
    words = ["afgrl", "fit", asked["source"], "--method", asked.get("method", "afgrl")]
    words += ["--recipe", asked["recipe"]] if asked.get("recipe", "default") != "default" else []
    words += ["--data-dir", asked["data_dir"]] if asked.get("data_dir") else []
    words += ["--splits", asked["splits"]] if asked.get("splits", "auto") != "auto" else []
    words += ["--undirected"] if asked.get("directed") is False else []
    words += ["--evaluate-every", asked["evaluate_every"]] if asked.get("evaluate_every") else []
    for key, value in asked.items():
        if key.startswith("file_"):
            option = {"file_columns": "--column"}.get(key, "--" + key.removeprefix("file_").replace("_", "-"))
            for item in value if isinstance(value, (list, tuple)) else [value]:
                words += [option, item]
    words += ["--config", folder / "config.toml"]
    return shlex.join(str(word) for word in words)
