"""Settings of a method: defaults, then the recipe, then what the user sets."""

from __future__ import annotations

import stat
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from afgrl import DEFAULT_METHOD
from afgrl.errors import UserError, unknown

if TYPE_CHECKING:
    from afgrl.graph import Graph


MAX_TOML_BYTES = 1 << 20
LARGEST = 1e18  # number of a setting: also the ratio of two settings has a value in single precision


class Settings(BaseModel):
    """Settings every method has; each method's own class adds to them.

    A field without a default follows the graph: ``graph_defaults`` computes it when nobody sets it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    learning_rate: float = Field(1e-3, gt=0, description="learning rate (η)")
    weight_decay: float = Field(1e-5, ge=0, description="weight decay of AdamW, or L2 regularization of Adam")
    precision: Literal["float32", "tf32", "bf16"] = Field(
        "bf16",
        description="of matrix products on a GPU; bf16 applies to all-pairs products only, the rest uses tf32; "
        "CPUs always use float32",
    )
    patience: int = Field(0, ge=0, description="stop after this many steps without a lower loss; 0: never")
    checkpoint_every: int = Field(100, ge=0, description="steps between checkpoints; 0: only after the last step")
    seed: int = Field(0, ge=0, lt=2**63, description="seed of all random numbers in training")

    @property
    def n_steps(self) -> int:
        """Optimizer steps of the whole run."""
        return 0

    @property
    def step_name(self) -> str:
        """What messages call one step."""
        return "step"

    @classmethod
    def graph_defaults(cls, graph: Graph, given: Mapping[str, Any]) -> dict[str, Any]:
        """Values that follow the graph, for the fields nobody set; ``given`` holds those that were set."""
        return {}

    def check_graph(self, graph: Graph) -> None:
        """Raise ``UserError`` for values that this graph is too small for."""


class EpochSettings(Settings):
    """Settings of a method whose steps are passes over the graph."""

    epochs: int = Field(500, ge=0, description="passes over the graph")

    @property
    def n_steps(self) -> int:
        return self.epochs

    @property
    def step_name(self) -> str:
        return "epoch"


class BatchSettings(EpochSettings):
    """Settings of a method that trains in batches of rows, or in full batches if ``batch_size`` is 0."""

    epochs: int = Field(ge=0, description="steps in full batches, each a pass over the graph; 0 in batches")
    steps: int = Field(ge=0, description="steps in batches; 0 in full batches")
    batch_size: int = Field(ge=0, description="rows per step; 0: all rows (full batch)")

    @property
    def in_batches(self) -> bool:
        return self.batch_size > 0

    @property
    def n_steps(self) -> int:
        return self.steps if self.in_batches else self.epochs

    @property
    def step_name(self) -> str:
        return "step" if self.in_batches else "epoch"

    @model_validator(mode="after")
    def _one_unit(self) -> Self:
        if self.in_batches and self.epochs:
            raise ValueError("epochs count full batches; set steps, or batch_size=0")
        return self


SettingsT = TypeVar("SettingsT", bound=Settings)


def resolve(settings_class: type[SettingsT], *layers: Mapping[str, Any], graph: Graph | None = None) -> SettingsT:
    """The settings of one run: the defaults of the class and of the graph, overridden by each layer in turn."""
    merged: dict[str, Any] = {}
    for layer in layers:
        _check_names(settings_class, layer)
        merged |= layer
    if graph is not None:
        try:
            merged = settings_class.graph_defaults(graph, merged) | merged
        except (TypeError, ValueError):  # a value that is not a number: the validation below names it
            merged = settings_class.graph_defaults(graph, {}) | merged
    try:
        settings = settings_class.model_validate(merged)
    except ValidationError as error:
        raise _refusal(error.errors()[0]) from None
    for name, value in settings.model_dump().items():
        if isinstance(value, float) and value != 0 and not 1 / LARGEST <= abs(value) <= LARGEST:
            raise UserError(
                f"The setting {name!r} cannot be {value!r}: possible are 0 and numbers from 1e-18 to {LARGEST!r}."
            )
    if graph is not None:
        settings.check_graph(graph)
    return settings


def check_settings(settings_class: type[Settings], given: Mapping[str, Any]) -> None:
    """Raise ``UserError`` for a name or a value that is wrong for every graph."""
    _check_names(settings_class, given)
    try:
        settings_class.model_validate(given)
    except ValidationError as error:
        wrong = [found for found in error.errors() if found["type"] != "missing"]  # the graph gives what is missing
        if wrong:
            raise _refusal(wrong[0]) from None


def _check_names(settings_class: type[Settings], given: Mapping[str, Any]) -> None:
    for name in given:
        if name not in settings_class.model_fields:
            raise unknown("setting", name, settings_class.model_fields)


def _refusal(found: Any) -> UserError:
    name = ".".join(str(part) for part in found["loc"])
    if found["type"] == "missing":
        return UserError(f"The setting {name!r} has no default without a graph; set it.")
    if not name:  # a rule about several settings
        return UserError(f"These settings contradict each other: {found['ctx']['error']}.")
    return UserError(f"The setting {name!r} cannot be {_shown(found['input'])}: {found['msg'].lower()}.")


def _shown(value: Any) -> str:
    """A value for a message; long ones are cut. ``str`` of a huge integer is an error in Python."""
    try:
        text = repr(value)
    except ValueError:
        return "an integer of thousands of digits"
    return text if len(text) <= 80 else text[:77] + "…"


def recipe(method: str, name: str, dataset: str = "") -> dict[str, Any]:
    """The settings of a recipe: those for every graph, overridden by those for this dataset."""
    if method == DEFAULT_METHOD and name == "paper":
        raise UserError("The default embedding has no published settings; name a method, such as --method afgrl.")
    file = resources.files("afgrl.recipes") / f"{method}.toml"
    tables = tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    tables = {"default": {}, "paper": {}} | tables  # the class's defaults where nothing was published
    if name not in tables:
        raise unknown("recipe", name, tables)
    common = {key: value for key, value in tables[name].items() if not isinstance(value, dict)}
    return common | tables[name].get(dataset, {})


def settings_from_file(path: Path) -> dict[str, Any]:
    """The settings in a TOML file: its top level, or the table ``[settings]`` of a run's config.toml."""
    tables = read_toml(path)
    settings = tables.get("settings", {key: value for key, value in tables.items() if not isinstance(value, dict)})
    if not isinstance(settings, dict):
        raise UserError(f"'settings' in {str(path)!r} must be a table: [settings].")
    return settings


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file of the user."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UserError(f"{str(path)!r} is not a file, so it has no settings.")
        if path.stat().st_size > MAX_TOML_BYTES:
            raise UserError(f"The settings file {str(path)!r} is larger than 1 MiB.")
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"Settings file not found: {str(path)!r}.") from None
    except UserError:
        raise
    except RecursionError:
        raise UserError(f"The settings file {str(path)!r} has tables within tables that are too deep.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"The settings file {str(path)!r} cannot be read: {reason}.") from None
    except ValueError:  # of Python's limit on the digits of integers
        raise UserError(f"A number in the settings file {str(path)!r} has thousands of digits.") from None


def settings_from_assignments(assignments: list[str]) -> dict[str, str]:
    """``["n_neighbors=8"]`` as a layer; the settings class parses the values."""
    layer = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise UserError(f"--set takes name=value, for example n_neighbors=8, not {assignment!r}.")
        layer[name.strip()] = value.strip()
    return layer
