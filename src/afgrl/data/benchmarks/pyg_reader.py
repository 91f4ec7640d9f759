"""Raw files of a benchmark → tensors, by PyG's dataset classes."""

from __future__ import annotations

import contextlib
import io
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from afgrl.data.benchmarks.pickles import check_pickle
from afgrl.data.benchmarks.registry import Benchmark
from afgrl.errors import UserError
from afgrl.ops.sparse.layout import compact_features

TENSORS = ("x", "edge_index", "y", "train_mask", "val_mask", "test_mask")


def read_raw_files(benchmark: Benchmark, raw: Sequence[Path], scratch: Path) -> dict[str, Tensor]:
    """The tensors of a benchmark. PyG writes next to the raw files, which may be in a read-only folder, so it reads
    links to them in ``scratch``, or copies of pickles, which nobody can change after their check."""
    for source, link in zip(raw, benchmark.raw.under(scratch), strict=True):
        link.parent.mkdir(parents=True, exist_ok=True)
        try:
            if _is_pickle(source):
                shutil.copyfile(source, link)
            else:
                link.symlink_to(source.absolute())
        except OSError:  # Windows without the privilege, some network disks
            shutil.copyfile(source, link)
    try:
        for link in benchmark.raw.under(scratch):
            if _is_pickle(link):
                check_pickle(link)
        data = _read_with_pyg(benchmark, scratch)
    except (MemoryError, ImportError):
        raise
    except Exception as error:  # PyG raises many types for a damaged file
        raise UserError(
            f"{benchmark.title} cannot be read from {_damaged_file(benchmark, raw)} "
            f"({type(error).__name__}: {' '.join(str(error).split())[:200]}); "
            f"delete it, or replace it with the file from {benchmark.raw.url}."
        ) from error
    return {key: data[key] for key in TENSORS if key in data}


def _is_pickle(path: Path) -> bool:
    return path.name.startswith("ind.") and not path.name.endswith(".index")


def _read_with_pyg(benchmark: Benchmark, root: Path) -> Any:
    folder = benchmark.raw.folder
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):  # PyG prints "Processing...", "Done!"
        warnings.simplefilter("ignore")
        import torch_geometric.datasets

        dataset_class = getattr(torch_geometric.datasets, benchmark.pyg_class)
        if benchmark.directed:  # WikiCS is the only graph of its class, which takes no name and adds no folder
            return dataset_class(str(root / folder), pre_transform=_compact, is_undirected=False)[0]
        return dataset_class(str(root), folder, pre_transform=_compact)[0]


def _compact(data: Any) -> Any:
    data.x = compact_features(data.x)  # before PyG writes it: Physics is 1.1 GB dense
    return data


def _damaged_file(benchmark: Benchmark, raw: Sequence[Path]) -> Path:
    """The first file that cannot be read; PyG does not say which of Planetoid's eight it is."""
    if len(raw) == 1:
        return raw[0]
    from torch_geometric.io.planetoid import read_file

    for path in raw:
        try:
            if _is_pickle(path):
                check_pickle(path)
            else:
                read_file(str(path.parent), benchmark.raw.folder, path.name.split(".", 2)[2])
        except Exception:
            return path
    return raw[0].parent
