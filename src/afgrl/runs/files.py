"""Atomic writes: a file is complete or absent."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def replace_file(final: Path, write: Callable[[Path], Any]) -> None:
    """Write to a temporary name in the same folder, then rename."""
    temporary = final.with_name(f".{final.name}.{os.getpid()}")
    try:
        write(temporary)
        os.replace(temporary, final)
    finally:
        temporary.unlink(missing_ok=True)


def save_npy(path: Path, values: np.ndarray) -> None:
    with open(path, "wb") as file:  # given a name without .npy, NumPy would append it
        np.save(file, values)


def save_npz(path: Path, arrays: dict[str, Any], *, compressed: bool = False) -> None:
    with open(path, "wb") as file:  # given a name without .npz, NumPy would append it
        (np.savez_compressed if compressed else np.savez)(file, **arrays)
