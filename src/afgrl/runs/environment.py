"""What a result was measured with: device, versions, commit and time."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

import afgrl

REPORTED = ("torch", "torch_geometric", "numpy", "scipy", "scikit-learn", "pyarrow")


def current_environment(device: torch.device) -> dict[str, Any]:
    """Device, versions, commit and time."""
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return {
        "afgrl": afgrl.__version__,
        "commit": _commit(),
        "device": gpu or f"{platform.machine()} CPU, {torch.get_num_threads()} thread(s)",
        "python": platform.python_version(),
        "versions": {name: metadata.version(name) for name in REPORTED},
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _commit() -> str | None:
    """The commit of the checkout that this package is part of; AFGRL_COMMIT sets it for a copy without .git."""
    if os.environ.get("AFGRL_COMMIT"):
        return os.environ["AFGRL_COMMIT"]
    try:
        _git(
            "ls-files", "--error-unmatch", Path(__file__).name
        )  # fails if afgrl is installed inside another repository
        return _git("describe", "--always", "--dirty", "--abbrev=12")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*words: str) -> str:
    answer = subprocess.run(
        ["git", "-C", str(Path(__file__).parent), *words], capture_output=True, text=True, timeout=10, check=True
    )
    return answer.stdout.strip()
