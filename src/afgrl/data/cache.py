"""What is kept between calls: tensors made from raw files, stored with the fingerprint of those files."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import torch
from torch import Tensor

from afgrl.csr import quiet_sparse
from afgrl.errors import UserError

LAYOUT = 1  # raise when the stored tensors change their meaning: older files are then made again


def cache_folder() -> Path:
    """The folder all caches live in: ``AFGRL_CACHE``, else ``afgrl`` in the user's cache folder."""
    if os.environ.get("AFGRL_CACHE"):
        return Path(os.environ["AFGRL_CACHE"]).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "afgrl"


@contextmanager
def scratch_folder(within: str) -> Iterator[Path]:
    """A folder of our own in the cache, on the disk of the final files so that a rename is atomic."""
    parent = cache_folder() / within
    try:
        parent.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.TemporaryDirectory(dir=parent, prefix="tmp-")
    except OSError as error:
        raise UserError(
            f"The cache folder {parent} cannot be written ({error.strerror}); set AFGRL_CACHE to a folder that can."
        ) from None
    with scratch as folder:
        yield Path(folder)


def cached(name: str, raw: Sequence[Path], make: Callable[[Path], dict[str, Tensor]]) -> dict[str, Tensor]:
    """The tensors ``make(scratch folder)`` returns, made again only when a raw file has changed.

    Two processes may both make them; each renames a complete file, so a reader sees one or the other.
    """
    place = hashlib.sha256("\n".join(str(path.absolute()) for path in raw).encode()).hexdigest()[:12]
    target = cache_folder() / "processed" / f"{name}-{place}.pt"
    fingerprint = _fingerprint(raw)
    stored = _read(target)
    if stored is not None and stored.get("fingerprint") == fingerprint:
        return stored["tensors"]
    with scratch_folder("processed") as folder:
        tensors = make(folder)
        finished = folder / target.name
        torch.save({"fingerprint": fingerprint, "tensors": tensors}, finished)
        os.replace(finished, target)
    return tensors


def _fingerprint(raw: Sequence[Path]) -> str:
    """Everything the tensors depend on: the raw files, PyG which reads them, our own layout."""
    parts = [f"layout {LAYOUT}", f"torch_geometric {version('torch_geometric')}"]
    for path in raw:
        status = path.stat()
        parts.append(f"{path.name} {status.st_size} {status.st_mtime_ns}")
    return "\n".join(parts)


def _read(path: Path) -> dict | None:
    """The stored file, or None when there is none that can be read: it is made again then."""
    if not path.exists():
        return None
    with quiet_sparse():
        try:
            return torch.load(path, weights_only=True)
        except Exception:  # torch raises many kinds for a damaged file, and all mean the same here
            return None
