"""Estimated memory and time of training on this machine, and settings that fit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

import torch

from afgrl import DEFAULT_METHOD
from afgrl.amounts import byte_size
from afgrl.config import Settings, resolve
from afgrl.cost.batches import batch_seconds
from afgrl.cost.disk import ReadingNeeds, check_reading, check_run_disk, run_disk
from afgrl.cost.limits import check_memory, narrower
from afgrl.cost.machine import free_memory, matmul_rates
from afgrl.cost.program import program_memory
from afgrl.cost.proposals import faster
from afgrl.cost.storage import folder_after_training, storage_plan
from afgrl.cost.workload import Workload, arithmetic
from afgrl.data import Dataset
from afgrl.data.any_source import read_source
from afgrl.data.read_keywords import ReadKeywords, with_keywords
from afgrl.data.tables.options import ReadOptions
from afgrl.errors import UserError
from afgrl.graph import Graph
from afgrl.methods import Method, available_methods, method_class
from afgrl.methods.afgrl import AFGRLSettings
from afgrl.methods.base import TrainingFreeSettings
from afgrl.methods.parts.embedder_settings import NodeEmbedderSettings
from afgrl.methods.parts.positive_settings import PositiveSettings

# Share of the rate of large matrix products that an epoch reaches: .64 and .38 for the default recipe on two CPU cores
# (results/bench-cpu-default.json), .23 to .5 for the paper's on an H200 (results/bench-nvidia-h200.json), where
# the time on a small graph depends on the number of kernels instead.
REACHED = {"cpu": 0.5, "cuda": 0.35}
LEAST_SECONDS = {"cpu": 0.0, "cuda": 1.4e-3}


def estimate(
    source: Any, /, *, method: str = DEFAULT_METHOD, settings: Mapping[str, Any] | None = None,
    data_dir: str | Path | None = None, **read: Unpack[ReadKeywords],
) -> dict[str, Any]:  # fmt: skip
    """Memory and time of training on this machine, and settings that fit or are faster, as `afgrl estimate` prints
    them. ``source`` is what ``load`` reads, with its options, or a graph that estimators accept; ``settings`` are those
    that differ from the default, such as ``{"n_components": 64}``; ``method`` is "node_embedder" or "afgrl"."""
    options = with_keywords(ReadOptions(), read)
    reading = check_reading(source, options) if isinstance(source, (str, Path)) else None
    return estimate_cost(read_source(source, data_dir, **read), dict(settings or {}), reading, method)


def estimate_cost(
    dataset: Dataset, given: dict[str, Any], reading: ReadingNeeds | None = None, method: str = DEFAULT_METHOD
) -> dict[str, Any]:
    """Memory and time of a method on each device of this machine, and narrower settings if the given ones do not fit.

    ``memory_bytes`` on a CPU is the peak of the whole process of `afgrl fit`, as `top` shows it: what this process has
    in use after it read the same graph, the libraries that training loads, and training. ``reading`` is what it took
    to read large tables.
    """
    program = program_memory()
    cls = method_class(method)
    settings = resolve(cls.settings_class, given, graph=dataset.graph)
    if not isinstance(settings, PositiveSettings):
        raise UserError(f"The cost of {method!r} cannot be estimated; possible methods: node_embedder, afgrl.")
    kinds = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    return {
        "name": dataset.name, "method": method, "nodes": dataset.graph.n, "edges": dataset.graph.n_edges,
        "features": dataset.graph.n_features, "settings": settings.model_dump(),
        "disk": {
            "run_bytes": run_disk(cls, settings, dataset),
            "temporary_bytes": reading.disk_bytes if reading else 0,
            "reading_memory_bytes": reading.memory_bytes if reading else 0,
        },
        "devices": [_on(kind, settings, Workload.of(dataset.graph, kind), program) for kind in kinds],
    }  # fmt: skip


def _on(kind: str, settings: PositiveSettings, load: Workload, program: tuple[int, int]) -> dict[str, Any]:
    in_use, peak_so_far = program if kind == "cpu" else (0, 0)
    free = free_memory(kind)
    plan = storage_plan(settings, load, free)
    needed = plan.memory_bytes
    rates = matmul_rates(torch.device(kind))
    if isinstance(settings, NodeEmbedderSettings):
        parts = batch_seconds(settings, load, rates)
        step, total = parts.step, parts.total(settings)
    else:
        assert isinstance(settings, AFGRLSettings)
        step = _epoch_seconds(settings, load, rates)
        total = step * settings.epochs
    return {
        "device": kind, "memory_bytes": max(in_use + needed, peak_so_far), "free_bytes": in_use + free,
        "temporary_bytes": plan.disk_bytes, "fits": needed <= free,
        f"{settings.step_name}_seconds": step, "seconds": total,
        "narrower": {} if needed <= free else narrower(settings, load, free),
        "faster": faster(settings, load, rates),
    }  # fmt: skip


def table_folder(settings: Settings, graph: Graph, device: torch.device) -> Path | None:
    """A folder for the tables of training, made now, if they do not fit into memory."""
    if isinstance(settings, TrainingFreeSettings):
        return folder_after_training(graph, getattr(settings, "n_components", 0), device)
    if device.type != "cpu" or not isinstance(settings, PositiveSettings):
        return None
    folder = storage_plan(settings, Workload.of(graph, device.type), free_memory(device.type)).folder
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def _epoch_seconds(settings: AFGRLSettings, load: Workload, rates: dict[str, float]) -> float:
    work = arithmetic(settings, load)
    busy = work.train / rates["train"] + work.search / rates["search"] / settings.refresh_every
    return max(busy / REACHED[load.device], LEAST_SECONDS[load.device])


def check_disk(settings: Settings, dataset: Dataset, folder: Path, *, all_features: bool = False) -> None:
    """Raise ``UserError`` if the disk of a run folder has too little space for the run."""
    check_run_disk(_method_of(settings), settings, dataset, folder, all_features=all_features)


def _method_of(settings: Settings) -> type[Method]:
    # Methods that share their settings have the same parameters.
    return next(method for method in available_methods().values() if method.settings_class is type(settings))


def memory_warning(
    settings: Settings, dataset: Dataset, device: torch.device, *, may_use_files: bool = True
) -> str | None:
    """A sentence if training may run out of memory; raises ``UserError`` if it certainly will."""
    load = check_memory(_method_of(settings), settings, dataset.graph, device, may_use_files=may_use_files)
    free = free_memory(device.type)
    if isinstance(settings, TrainingFreeSettings):
        folder = table_folder(settings, dataset.graph, device)
        if folder is None:
            return None
        return f"Tables are in temporary files in {folder}: the {byte_size(free)} of free memory are too little."
    if load is None or not isinstance(settings, PositiveSettings):
        return None
    plan = storage_plan(settings, load, free, may_use_files=may_use_files)
    needed = plan.memory_bytes
    if needed <= free and plan.folder is None:
        return None
    if needed <= free:
        return (
            f"The tables of training are in temporary files of up to {byte_size(plan.disk_bytes)} in "
            f"{plan.folder}: the {byte_size(free)} of free memory are too little for them."
        )
    fitting = narrower(settings, load, free, may_use_files=may_use_files)
    advice = " ".join(f"--set {name}={value}" for name, value in (fitting or {}).items())
    hint = f"; {advice} would fit" if fitting else ""
    return f"Training may need {byte_size(needed)} on the {device.type}; {byte_size(free)} are free{hint}."
