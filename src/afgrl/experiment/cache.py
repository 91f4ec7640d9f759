"""The run cache: a spec that was run before, with the same data, is not run again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from joblib import Parallel, delayed

import afgrl
from afgrl.data import Dataset
from afgrl.errors import AfgrlError, Interrupted, UserError
from afgrl.experiment.evaluation import evaluate_run
from afgrl.experiment.new_nodes import new_node_accuracy
from afgrl.experiment.training import fit, resume
from afgrl.runs.dataset_files import features_fingerprint
from afgrl.runs.files import write_json
from afgrl.runs.folder import EVALUATIONS, FORMAT, Run
from afgrl.runs.readers import read_record
from afgrl.runs.spec import RunSpec

Record = dict[str, Any]  # a finished run as tables and figures read it
Found = TypeVar("Found")
NEW_NODES = "new-nodes.json"  # in the folder of a cached run


@cache
def loaded(source: str, data_dir: str | None, splits: str, directed: bool | None) -> tuple[Dataset, str]:
    """A dataset and the hash of everything scores depend on: edges, features, labels and splits."""
    dataset = RunSpec(source, data_dir=data_dir, splits=splits, directed=directed).load()
    labels = b"" if dataset.y is None else np.ascontiguousarray(dataset.y).tobytes()
    roles = b"" if dataset.splits is None else dataset.splits.roles.tobytes()
    parts = [dataset.graph.fingerprint, features_fingerprint(dataset.graph.x), *map(_digest, (labels, roles))]
    return dataset, " ".join(map(str, parts))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


@dataclass(frozen=True)
class RunCache:
    """A folder of run folders, found by method, complete settings, evaluation plan, data and version."""

    folder: Path

    def path(self, spec: RunSpec) -> Path:
        dataset, data = loaded(spec.source, spec.data_dir, spec.splits, spec.directed)
        resolved, _ = spec.resolved(dataset)
        parts = {
            "settings": dict(resolved.settings), "method": spec.method, "evaluation": asdict(spec.evaluation),
            "data": data, "format": FORMAT, "version": afgrl.__version__,
        }  # fmt: skip
        key = _digest(json.dumps(parts, sort_keys=True).encode())
        return self.folder / f"{dataset.name}-{spec.method}-{key}"

    def record(self, spec: RunSpec) -> Record | None:
        """The record of a finished run; None if there is none, or if it is damaged and has to be run again."""
        run = Run(self.path(spec))
        try:
            return record_of(run) if run.is_complete and run.has_scores else None
        except UserError:
            return None

    def has_embedding(self, spec: RunSpec) -> bool:
        return Run(self.path(spec)).embedding_file(None, "parquet").is_file()

    def embedding(self, spec: RunSpec) -> np.ndarray | None:
        """The vectors of a finished run, if they were kept."""
        return Run(self.path(spec)).embedding()[1] if self.has_embedding(spec) else None

    def new_node_accuracy(self, spec: RunSpec) -> float | None:
        """The accuracy on nodes that were held out of a run with this spec; None if it was not measured, or if the file
        is damaged."""
        file = self.path(spec) / NEW_NODES
        try:
            return read_record(file, accuracy=(int, float))["accuracy"] if file.is_file() else None
        except UserError:
            return None

    def measure_new_nodes(self, spec: RunSpec, device: torch.device) -> float:
        """The same, measured now; it is kept with the run."""
        dataset = loaded(spec.source, spec.data_dir, spec.splits, spec.directed)[0]
        accuracy = new_node_accuracy(spec, dataset, device)
        with Run(self.path(spec)).writing():
            write_json(self.path(spec) / NEW_NODES, {"accuracy": accuracy})
        _empty_gpu_cache(device)
        return accuracy

    def complete(self, spec: RunSpec, device: torch.device, *, keep_embedding: bool = False) -> Record:
        """Run a spec, or continue its interrupted run, and evaluate it; weights and vectors are not kept."""
        path = self.path(spec)
        path.parent.mkdir(parents=True, exist_ok=True)
        with Run(path).writing():
            if (path / "config.toml").is_file() and not Run(path).is_complete:
                run = resume(Run.open(path), device)
            else:
                run = fit(spec, path, device, force=path.exists(), with_features=False)
            evaluate_run(run, device, baselines=False)
            run.drop_large_files(keep_embedding=keep_embedding)
            _empty_gpu_cache(device)
            return record_of(run)


def _empty_gpu_cache(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.empty_cache()  # other processes may run on the same GPU


def record_of(run: Run) -> Record:
    spec, scores, model = run.spec(), run.scores(), run.model_description()
    with run.reading("scores.json"):
        scores["last-epoch"]["classification"]["accuracy"]["mean"]  # what tables and messages need
    with run.reading(EVALUATIONS):
        evaluations = [_means(record) for record in run.lines(EVALUATIONS)]
    return {
        "dataset": scores["dataset"], "method": spec.method, "recipe": spec.recipe, "seed": scores["seed"],
        "settings": dict(spec.settings), "command": spec.command(), "environment": run.environment(),
        "epochs": model["epochs"], "seconds": model["seconds"], "peak_bytes": model.get("peak_bytes"),
        "last-epoch": scores["last-epoch"], "best-epoch": scores["best-epoch"],
        "evaluations": evaluations,
    }  # fmt: skip


def _means(record: dict[str, Any]) -> Record:
    """One periodic evaluation, averaged over splits and fits."""
    values = {"accuracy": record["test"], "nmi": record["nmi"], "sim@5": [record["sim@5"]]}
    return {"epoch": record["epoch"]} | {name: float(np.mean(part)) for name, part in values.items()}


def run_grid(
    specs: Iterable[RunSpec],
    run_cache: RunCache,
    device: torch.device,
    *,
    workers: int = 1,
    cached_only: bool = False,
    keep_embedding: Callable[[RunSpec], bool] = lambda spec: False,
    message: Callable[[str], None] = lambda sentence: None,
) -> dict[RunSpec, Record]:
    """The records of all specs. Those that are not cached are run, each saved as soon as it is done; a run that fails
    is reported and left out. ``cached_only`` runs nothing."""
    found = {spec: run_cache.record(spec) for spec in dict.fromkeys(specs)}
    missing = [
        spec
        for spec, record in found.items()
        if record is None or (keep_embedding(spec) and not run_cache.has_embedding(spec))
    ]
    message(f"{len(found) - len(missing)} of {len(found)} runs are cached")
    jobs = {spec: partial(run_cache.complete, spec, keep_embedding=keep_embedding(spec)) for spec in missing}
    for where, spec, record in _done({} if cached_only else jobs, device, workers):
        if isinstance(record, str):
            message(f"{where} failed and is left out: {record}")
            continue
        found[spec] = record
        accuracy = record["last-epoch"]["classification"]["accuracy"]["mean"]
        message(f"{where}: {accuracy:.2f} % after {record['seconds']:.1f} s")
    return {spec: record for spec, record in found.items() if record is not None}


def new_node_grid(
    specs: Iterable[RunSpec],
    run_cache: RunCache,
    device: torch.device,
    *,
    workers: int = 1,
    cached_only: bool = False,
    message: Callable[[str], None] = lambda sentence: None,
) -> dict[RunSpec, float]:
    """The accuracy on new nodes of each spec whose run is cached, in the same way."""
    found = {spec: run_cache.new_node_accuracy(spec) for spec in specs}
    jobs = {spec: partial(run_cache.measure_new_nodes, spec) for spec, accuracy in found.items() if accuracy is None}
    for where, spec, accuracy in _done({} if cached_only else jobs, device, workers):
        if isinstance(accuracy, str):
            message(f"{where}, new nodes, failed and is left out: {accuracy}")
            continue
        found[spec] = accuracy
        message(f"{where}, new nodes: {accuracy:.2f} %")
    return {spec: accuracy for spec, accuracy in found.items() if accuracy is not None}


def _done(
    jobs: Mapping[RunSpec, Callable[[torch.device], Found]], device: torch.device, workers: int
) -> Iterator[tuple[str, RunSpec, Found | str]]:
    """What to call each job in a message, its spec, and its result or why there is none."""
    count = torch.cuda.device_count() if device.type == "cuda" and workers > 1 else 1  # several GPUs take turns
    devices = [torch.device("cuda", i % count) if device.type == "cuda" and workers > 1 else device
               for i in range(len(jobs))]  # fmt: skip
    calls = [delayed(_attempt)(spec, job, own) for (spec, job), own in zip(jobs.items(), devices, strict=True)]
    one_by_one = (call(*arguments, **keywords) for call, arguments, keywords in calls)
    outcomes = one_by_one if workers == 1 else Parallel(n_jobs=workers, return_as="generator_unordered")(calls)
    for done, (spec, outcome) in enumerate(outcomes, 1):
        sets = "".join(f" {name}={value}" for name, value in spec.settings.items())
        yield f"{done}/{len(jobs)} {spec.source} {spec.method}{sets}", spec, outcome


def _attempt(spec: RunSpec, job: Callable[[torch.device], Found], device: torch.device) -> tuple[RunSpec, Found | str]:
    if device.index is not None:
        torch.cuda.set_device(device)  # kernels outside the training loop run on the current device
    try:
        return spec, job(device)
    except Interrupted:
        raise Interrupted("Interrupted; the same command continues from the last checkpoint.") from None
    except (torch.OutOfMemoryError, MemoryError, AfgrlError) as error:  # other runs may fit
        return spec, str(error).split("\n")[0]
