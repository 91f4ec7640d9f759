"""Files that are whole or not there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def replace_file(final: Path, write: Callable[[Path], Any]) -> None:
    """Write through a temporary name, so that a file is whole or not there."""
    temporary = final.with_name(f".{final.name}.{os.getpid()}")
    try:
        write(temporary)
        os.replace(temporary, final)
    finally:
        temporary.unlink(missing_ok=True)


def save_npy(path: Path, values: np.ndarray) -> None:
    with open(path, "wb") as file:  # numpy would add .npy to a name without it
        np.save(file, values)


def save_npz(path: Path, arrays: dict[str, Any], *, packed: bool = False) -> None:
    with open(path, "wb") as file:  # likewise
        (np.savez_compressed if packed else np.savez)(file, **arrays)
