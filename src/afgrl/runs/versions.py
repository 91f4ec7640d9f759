"""The format of run folders, and runs of the one before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from afgrl import DEFAULT_METHOD
from afgrl.methods import available_methods

FORMAT = 4  # raise when files change their meaning
READABLE = (3, FORMAT)
# Format 3 called the default embedding "afgrl" too (with a batch_size above 0), and methods that do not train had
# epochs. Each of these settings belongs to some of the methods since.
MOVED = {"epochs", "steps", "batch_size", "dropout", "encoder_width", "skip", "input", "neighbor_weight", "n_layers"}


def current(method: str, settings: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """A method and its settings, complete or not, as this format names them."""
    if method == "afgrl" and settings.get("batch_size"):
        method = DEFAULT_METHOD
    fields = available_methods()[method].settings_class.model_fields if method in available_methods() else MOVED
    return method, {name: value for name, value in settings.items() if name in fields or name not in MOVED}
