"""Which version of an operation runs: Triton kernels on a GPU, fast versions on a CPU, or the references."""

from __future__ import annotations

import os
from typing import Literal

import torch
from torch import Tensor

from afgrl.errors import AfgrlError, UserError

# Precision of the operands of a product on a GPU; sums are always float32. A CPU always uses float32.
Precision = Literal["float32", "tf32", "bf16"]
CHOICES = ("auto", "reference")
MIN_CAPABILITY = (8, 0)  # compute capability; the matrix units of older GPUs support neither bf16 nor tf32


def is_fast() -> bool:
    """Whether fast versions may run; AFGRL_OPS=reference disables them."""
    choice = os.environ.get("AFGRL_OPS", "auto")
    if choice not in CHOICES:
        raise UserError(f"AFGRL_OPS must be {' or '.join(CHOICES)}, not {choice!r}.")
    return choice == "auto"


def takes_kernels(x: Tensor) -> bool:
    """Whether Triton kernels compute on ``x``: on every GPU, unless AFGRL_OPS=reference.

    Raises an error if they should but cannot run; nothing falls back silently.
    """
    if not (x.is_cuda and is_fast()):
        return False
    reason = missing(x.device)
    if reason:
        raise AfgrlError(f"The GPU kernels cannot run: {reason}; AFGRL_OPS=reference computes without them.")
    return True


def missing(device: torch.device) -> str:
    """What the kernels lack on this GPU; empty if they can run."""
    try:
        import triton  # noqa: F401
    except ImportError as error:
        return f"Triton cannot be imported ({error})"
    capability = torch.cuda.get_device_capability(device)
    if capability < MIN_CAPABILITY:
        return "{} has compute capability {}.{}, but they need {}.{}".format(
            torch.cuda.get_device_name(device), *capability, *MIN_CAPABILITY
        )
    return ""
