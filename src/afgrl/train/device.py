"""The device to compute on."""

from __future__ import annotations

import torch

from afgrl.errors import UserError


def choose_device(name: str) -> torch.device:
    """``auto`` is the GPU if there is one."""
    if name not in ("auto", "cpu", "cuda"):
        raise UserError(f"The device can be auto, cpu or cuda, not {name!r}.")
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("PyTorch finds no GPU for the device 'cuda'; use 'cpu' or 'auto'.")
    return torch.device("cuda" if name == "cuda" or (name == "auto" and torch.cuda.is_available()) else "cpu")
