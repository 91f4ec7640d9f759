"""What does not fit into memory: settings that would, and a refusal before anything is allocated."""

from __future__ import annotations

import math

import torch

from afgrl.amounts import byte_size
from afgrl.config import Settings
from afgrl.cost.machine import total_memory
from afgrl.cost.storage import plan_with_files, storage_plan
from afgrl.cost.workload import Workload
from afgrl.errors import UserError
from afgrl.graph import Graph
from afgrl.methods import Method, Size
from afgrl.methods.parts.positive_settings import PositiveSettings

FLOAT = 4  # bytes
MARGIN = 1.25  # estimates are within a fifth of what was measured, so more than this is certain not to fit
NARROWEST = 64


def check_memory(
    method: type[Method], settings: Settings, graph: Graph, device: torch.device, *, may_use_files: bool = True
) -> Workload | None:
    """Raise ``UserError`` if training certainly needs more memory than the machine, or its GPU, has in total, without
    what the program and the graph have already.

    Several processes on one machine, which ``may_use_files`` excludes, have all tables in memory together. Returns the
    workload from which AFGRL's memory was estimated; None for the other methods.
    """
    most = total_memory(device.type)
    least = least_memory(method, settings, graph)
    if least > most:
        raise _too_large("at least", least, most, device, {})
    if not isinstance(settings, PositiveSettings):
        return None
    load = Workload.of(graph, device.type)
    needed = _needed(settings, load, most, may_use_files)
    if needed > MARGIN * most:
        files = plan_with_files(settings, load)
        advice = ""
        if files is not None and files.memory_bytes <= most:
            advice = f"; or set AFGRL_CACHE to a folder with {byte_size(files.disk_bytes)} for temporary files"
            advice = advice if may_use_files else "; or use one process, whose tables can be in temporary files"
        fitting = narrower(settings, load, most, may_use_files=may_use_files)
        raise _too_large("about", needed, most, device, fitting or {}, advice)
    return load


def least_memory(method: type[Method], settings: Settings, graph: Graph) -> float:
    """Bytes of the parameters, with gradients and the two moments of Adam if they are trained, and of the embedding.

    0 if that is not known.
    """
    learned, fixed = model_bytes(method, settings, graph)
    vectors = graph.n * getattr(settings, "n_components", 0) if method.trains else 0
    return 4 * learned + fixed + FLOAT * vectors


def model_bytes(method: type[Method], settings: Settings, graph: Graph) -> tuple[float, float]:
    """Of the parameters that are trained, and of the other parameters and the buffers.

    The method is built on PyTorch's meta device, whose tensors have a shape and no memory; 0 if it cannot be.
    """
    try:
        with torch.device("meta"):
            model = method(settings, Size(graph.n, graph.n_features), torch.Generator("cpu"))
    except UserError:
        raise
    except Exception as error:  # more entries than 64 bits can count, or a method that cannot be built there
        return (math.inf if "overflow" in str(error).lower() else 0.0), 0.0
    learned = sum(part.numel() for part in model.parameters() if part.requires_grad)
    fixed = sum(part.numel() for part in model.parameters() if not part.requires_grad)
    return FLOAT * learned, FLOAT * (fixed + sum(part.numel() for part in model.buffers()))


def narrower(
    settings: PositiveSettings, load: Workload, free: int, *, may_use_files: bool = True
) -> dict[str, int] | None:
    """The widest settings that fit, by halving; None if the graph itself is too large."""
    changes: dict[str, int] = {}
    names = ["n_components", *(["encoder_width"] if settings.in_batches else []), "predictor_width"]
    while _needed(settings.model_copy(update=changes), load, free, may_use_files) > free:
        widths = {name: getattr(settings, name) for name in names} | changes
        if max(widths.values()) <= NARROWEST:
            return None
        changes = {name: max(width // 2, min(width, NARROWEST)) for name, width in widths.items()}
    return changes


def _needed(settings: PositiveSettings, load: Workload, free: int, may_use_files: bool) -> int:
    return storage_plan(settings, load, free, may_use_files=may_use_files).memory_bytes


def _too_large(
    how: str, needed: float, most: int, device: torch.device, fitting: dict[str, int], advice: str = ""
) -> UserError:
    hint = f"; {', '.join(f'{name}={value}' for name, value in fitting.items())} would fit" if fitting else ""
    size = f"{how} {byte_size(needed)}" if math.isfinite(needed) else "more memory than can be addressed"
    return UserError(
        f"Training needs {size} with these settings, and the {device.type} has "
        f"{byte_size(most)}{hint or '; use a smaller width'}{advice}."
    )
