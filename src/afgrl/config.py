"""Settings: a method's defaults, then its recipe, then what the user says."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from afgrl.errors import UserError, unknown

if TYPE_CHECKING:
    from afgrl.graph import Graph


class Settings(BaseModel):
    """What every method can be told; each method's ``Config`` adds its own."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    epochs: int | None = Field(500, ge=0, description="passes over the graph")
    learning_rate: float = Field(1e-3, gt=0, description="step size of AdamW (the paper's η)")
    weight_decay: float = Field(1e-5, ge=0, description="AdamW's pull of every parameter towards zero")
    precision: Literal["float32", "tf32", "bf16"] = Field(
        "bf16",
        description="of products on a GPU; bf16: of all pairs of nodes only, the rest in tf32; a CPU takes float32",
    )
    patience: int = Field(0, ge=0, description="stop when the loss has not fallen for so many epochs; 0: never")
    checkpoint_every: int = Field(100, ge=0, description="epochs between checkpoints; 0 for none but the last")
    seed: int = Field(0, ge=0, lt=2**63, description="of everything random in training")

    def adapted(self, graph: Graph) -> Self:
        """These settings with every None replaced by what suits the graph; a method that has any says how."""
        return self


SettingsT = TypeVar("SettingsT", bound=Settings)


def resolve(config: type[SettingsT], *layers: Mapping[str, Any]) -> SettingsT:
    """The settings of one run: the defaults of ``config``, overruled by each layer in turn."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for name in layer:
            if name not in config.model_fields:
                raise unknown("setting", name, config.model_fields)
        merged |= layer
    try:
        return config.model_validate(merged)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise UserError(f"The setting {name!r} cannot be {first['input']!r}: {first['msg'].lower()}.") from None


def recipe(method: str, name: str, dataset: str = "") -> dict[str, Any]:
    """The settings a recipe file gives a method: those for every graph, overruled by the dataset's own."""
    file = resources.files("afgrl.recipes") / f"{method}.toml"
    tables = tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    tables = {"default": {}, "paper": {}} | tables  # the defaults of a method's Config, where nothing was published
    if name not in tables:
        raise unknown("recipe", name, tables)
    common = {key: value for key, value in tables[name].items() if not isinstance(value, dict)}
    return common | tables[name].get(dataset, {})


def from_file(path: Path) -> dict[str, Any]:
    """The settings of a TOML file: its top level, or the table ``[settings]`` of a run's config.toml."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"There is no settings file {str(path)!r}.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"The settings file {str(path)!r} cannot be read: {error}.") from None
    return tables.get("settings", {key: value for key, value in tables.items() if not isinstance(value, dict)})


def from_assignments(assignments: list[str]) -> dict[str, str]:
    """``["n_neighbors=8"]`` as a layer; the values are read by the settings' own types."""
    layer = {}
    for assignment in assignments:
        name, sign, value = assignment.partition("=")
        if not sign:
            raise UserError(f"--set takes name=value, for example n_neighbors=8, not {assignment!r}.")
        layer[name.strip()] = value.strip()
    return layer
