"""The logs, checkpoints and the model of a run."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from afgrl.ops.collectives import Shards
from afgrl.runs import checkpoints, logs, replace, shared_graph
from afgrl.runs.files import save_torch, write_json
from afgrl.runs.parts.files import RunFiles
from afgrl.runs.readers import check_record, read_record, reading
from afgrl.runs.tensor_file import read_tensors, write_tensors
from afgrl.runs.versions import current
from afgrl.train.state import TrainState

HISTORY, EVALUATIONS = "history.jsonl", "evaluations.jsonl"
NOT_FINISHED = "training has not finished; resume it with `afgrl fit … --resume`"


class TrainingFiles(RunFiles):
    def append(self, name: str, record: dict[str, Any]) -> None:
        """Add a line to one of the two logs."""
        logs.append_line(self.path / name, record)

    def lines(self, name: str) -> list[dict[str, Any]]:
        return logs.read_lines(self.path / name)

    def drop_lines_after(self, epoch: int) -> None:
        """Drop the log lines of epochs that a resumed training run will repeat."""
        for name in (HISTORY, EVALUATIONS):
            logs.drop_lines_after(self.path / name, epoch)

    def save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Of one process."""
        self._replace("checkpoint.pt", lambda path: save_torch(path, checkpoint))
        checkpoints.drop_folders(self.path)

    def save_sharded_checkpoint(self, state: TrainState, shards: Shards) -> None:
        """Called by all of several processes. The previous checkpoint is removed when the new one is complete."""
        from afgrl.train.sharded_checkpoint import save_shards  # loads PyTorch's checkpoint library

        folder = checkpoints.checkpoint_folder(self.path, state.step)
        if shards.rank == 0:
            checkpoints.drop_folder(folder)  # of processes that were killed while they wrote it
        dist.barrier()
        save_shards(folder, state, shards)
        if shards.rank == 0:
            (self.path / "checkpoint.pt").unlink(missing_ok=True)
            checkpoints.drop_folders(self.path, keep=folder)

    def drop_checkpoint(self) -> None:
        (self.path / "checkpoint.pt").unlink(missing_ok=True)
        checkpoints.drop_folders(self.path)

    @property
    def has_checkpoint(self) -> bool:
        return (self.path / "checkpoint.pt").is_file() or checkpoints.latest_folder(self.path) is not None

    def checkpoint(self, device: torch.device, shards: Shards | None = None) -> dict[str, Any] | None:
        """The last checkpoint, saved by one process or several; with ``shards``, for one of several processes."""
        if folder := checkpoints.latest_folder(self.path):
            from afgrl.train.sharded_checkpoint import load_shards  # loads PyTorch's checkpoint library

            with reading(folder):
                return load_shards(folder, device, shards)
        file = self.path / "checkpoint.pt"
        if not file.exists():
            return None
        with reading(file):
            checkpoint = torch.load(file, map_location=device, weights_only=True)
            check_record(checkpoint, {"step": int, "last": int, "seconds": float})
            return dict(checkpoint)

    def save_model(self, tensors: dict[str, Tensor], description: dict[str, Any]) -> None:
        """Written last: a run with a model is complete, and needs no checkpoint any more."""
        plain = {name: value for name, value in tensors.items() if isinstance(value, Tensor)}
        write_tensors(self.path / "model.safetensors", plain)
        write_json(self.path / "model.json", description)
        (self.path / shared_graph.FEATURES).unlink(missing_ok=True)
        self.drop_checkpoint()
        replace.drop_previous(self.path)

    def drop_model(self) -> None:
        """Because it is damaged: the run is then one whose training is not complete."""
        (self.path / "model.json").unlink(missing_ok=True)

    @property
    def is_complete(self) -> bool:
        return (self.path / "model.json").is_file()

    def model(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        self._need("model.safetensors", NOT_FINISHED)
        return read_tensors(self.path / "model.safetensors")[0], self.model_description()

    def model_description(self) -> dict[str, Any]:
        """Method, size, settings, epochs and seconds of the training."""
        self._need("model.json", NOT_FINISHED)
        description = read_record(
            self.path / "model.json", method=str, n_nodes=int, n_features=int, weighted=bool, epochs=int,
            seconds=(int, float), settings=dict,
        )  # fmt: skip
        method, settings = current(description["method"], description["settings"])
        return description | {"method": method, "settings": settings}

    def drop_large_files(self, *, keep_embedding: bool = False) -> None:
        """Remove what can be computed again by repeating the run: the weights, and the embedding."""
        for name in ["model.safetensors", *([] if keep_embedding else ["embeddings.parquet"])]:
            (self.path / name).unlink(missing_ok=True)
