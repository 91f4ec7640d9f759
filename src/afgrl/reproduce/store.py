"""Trainings, kept by what determines them: a second call, or another table, finds them again."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from joblib import Parallel, delayed

from afgrl.errors import AfgrlError
from afgrl.reproduce.cells import Cell, begun, config, loaded, measure
from afgrl.reproduce.looks import Record
from afgrl.reproduce.versions import code_version, data_version
from afgrl.train import train
from afgrl.writing import replace_file, save_npy


@dataclass(frozen=True)
class Store:
    """A folder of finished trainings, a file each, and of those that were interrupted."""

    folder: Path
    data_dir: str | None = None
    trains: bool = True  # what is not there; else it is left out

    def key(self, cell: Cell) -> str:
        """By settings, data and code: what does not change these finds the training again."""
        dataset = loaded(cell.dataset, self.data_dir)
        parts = {
            "settings": config(cell, dataset).model_dump(),
            "method": cell.method,
            "effort": dataclasses.asdict(cell.effort),
            "data": data_version(cell.dataset, self.data_dir),
            "code": code_version(cell.method),
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]

    def get(self, cell: Cell) -> Record | None:
        file = self.folder / f"{self.key(cell)}.json"
        return json.loads(file.read_text()) if file.is_file() else None

    def put(self, cell: Cell, record: Record) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(record) + "\n"
        replace_file(self.folder / f"{self.key(cell)}.json", lambda path: path.write_text(text))
        self.halfway(cell).unlink(missing_ok=True)

    def halfway(self, cell: Cell) -> Path:
        """Where a training is kept that has not ended yet."""
        return self.folder / f"{self.key(cell)}.halfway.pt"

    def vectors(self, cell: Cell, device: torch.device) -> np.ndarray | None:
        """The embedding of a training, which is made again where it was not kept."""
        file = self.folder / f"{self.key(cell)}.npy"
        if not file.is_file():
            if not self.trains:
                return None
            dataset = loaded(cell.dataset, self.data_dir)
            state, inputs = begun(cell, dataset, device)
            train(state, inputs)
            self.folder.mkdir(parents=True, exist_ok=True)
            vectors = state.method.represent(inputs).cpu().numpy()
            replace_file(file, lambda path: save_npy(path, vectors))
        return np.load(file)


def run_all(
    cells: Iterable[Cell], store: Store, device: torch.device, *, workers: int = 1, say: Callable[[str], None]
) -> dict[Cell, Record]:
    """The records of all cells; those not yet in the store are trained, if it may, each kept as soon as it is done."""
    found = {cell: store.get(cell) for cell in dict.fromkeys(cells)}
    missing = [cell for cell, record in found.items() if record is None]
    say(f"{len(found) - len(missing)} of {len(found)} trainings are at hand")
    for done, (cell, record) in enumerate(_trained(missing if store.trains else [], store, device, workers), 1):
        sets = "".join(f" {name}={value}" for name, value in cell.settings)
        where = f"{done}/{len(missing)} {cell.dataset} {cell.method}{sets}, seed {cell.seed}"
        if isinstance(record, str):
            say(f"{where} failed, and is left out: {record}")
            continue
        found[cell] = record
        accuracy = record["label-free"]["classification"]["accuracy"]["mean"]
        say(f"{where}: {accuracy:.2f} % after {record['seconds']:.1f} s")
    return {cell: record for cell, record in found.items() if record is not None}


Outcome = tuple[Cell, Record | str]  # its record, or why there is none


def _trained(cells: list[Cell], store: Store, device: torch.device, workers: int) -> Iterator[Outcome]:
    if workers == 1:
        yield from (_train_and_keep(cell, store, device) for cell in cells)
        return
    # Several GPUs take turns.
    count = torch.cuda.device_count() if device.type == "cuda" else 1
    devices = [
        torch.device(device.type, place % count) if device.type == "cuda" else device for place in range(len(cells))
    ]
    jobs = (delayed(_train_and_keep)(cell, store, own) for cell, own in zip(cells, devices, strict=True))
    yield from Parallel(n_jobs=workers, return_as="generator_unordered")(jobs)


def _train_and_keep(cell: Cell, store: Store, device: torch.device) -> Outcome:
    if device.type == "cuda":
        torch.cuda.set_device(device)  # kernels outside the training loop run on the current one
    store.folder.mkdir(parents=True, exist_ok=True)
    try:
        record = measure(cell, loaded(cell.dataset, store.data_dir), device, store.halfway(cell))
    except (torch.OutOfMemoryError, MemoryError, AfgrlError) as error:  # the others may well fit
        return cell, str(error).split("\n")[0]
    store.put(cell, record)
    return cell, record
