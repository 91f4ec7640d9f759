"""Which methods can train with several processes, and which of their settings."""

from __future__ import annotations

from collections.abc import Callable

from afgrl.config import Settings
from afgrl.errors import UserError
from afgrl.methods.base import Method
from afgrl.methods.parts.sharded_afgrl import ShardedAFGRL

SHARDED: dict[str, Callable[..., Method]] = {cls.name: cls for cls in (ShardedAFGRL,)}


def sharded_class(name: str, settings: Settings) -> Callable[..., Method]:
    """The version of a method for several processes; raises ``UserError`` if there is none for these settings."""
    if name not in SHARDED:
        raise UserError(
            f"The method {name!r} runs in one process; several processes train {' or '.join(SHARDED)} in batches."
        )
    values = settings.model_dump()
    for setting, refused, instead in (
        ("batch_size", 0, "set steps and a batch_size above 0, without epochs"),
        ("positives", "clusters", "choose another rule"),
        ("normalization", "batch", "choose frozen or none"),
        ("patience", None, "set it to 0"),
    ):
        value = values[setting]
        if value == refused or (refused is None and value):
            raise UserError(f"Several processes cannot train with {setting}={value!r}; {instead}, or use one process.")
    return SHARDED[name]
