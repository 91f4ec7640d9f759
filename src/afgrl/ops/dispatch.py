"""Which implementation runs: kernels on a GPU, fast paths on a CPU, or the references where they are asked for."""

from __future__ import annotations

import os
from typing import Literal

import torch
from torch import Tensor

from afgrl.errors import AfgrlError, UserError

# Of the operands of a product; sums are always float32. A CPU always takes float32.
Precision = Literal["float32", "tf32", "bf16"]
CHOICES = ("auto", "reference")
OLDEST_GPU = (8, 0)  # compute capability; the matrix units before it know neither bf16 nor tf32


def is_fast() -> bool:
    """Whether anything but the references may run: what the environment variable AFGRL_OPS says."""
    choice = os.environ.get("AFGRL_OPS", "auto")
    if choice not in CHOICES:
        raise UserError(f"AFGRL_OPS can be {' or '.join(CHOICES)}, not {choice!r}.")
    return choice == "auto"


def takes_kernels(x: Tensor) -> bool:
    """Whether the Triton kernels compute on ``x``: on every GPU, unless the references are asked for.

    Where they should but cannot, that is said; nothing falls back in silence.
    """
    if not (x.is_cuda and is_fast()):
        return False
    why_not = missing(x.device)
    if why_not:
        raise AfgrlError(f"The GPU kernels cannot run: {why_not}; AFGRL_OPS=reference computes without them.")
    return True


def missing(device: torch.device) -> str:
    """What the kernels lack on this GPU; nothing where they run."""
    try:
        import triton  # noqa: F401
    except ImportError as error:
        return f"Triton cannot be imported ({error})"
    capability = torch.cuda.get_device_capability(device)
    if capability < OLDEST_GPU:
        return "{} has compute capability {}.{}, and they need {}.{}".format(
            torch.cuda.get_device_name(device), *capability, *OLDEST_GPU
        )
    return ""
