"""Tensors made from raw files, cached with a fingerprint of these files."""

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

from afgrl.csr import no_csr_warnings
from afgrl.data.unpacking import home_expanded
from afgrl.errors import UserError

LAYOUT = 1  # increase when the meaning of the tensors changes, so that older files are not used


def cache_folder() -> Path:
    """The folder of all caches: ``AFGRL_CACHE``, or ``afgrl`` in the user's cache folder."""
    if os.environ.get("AFGRL_CACHE"):
        return home_expanded(os.environ["AFGRL_CACHE"])
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "afgrl"
    except RuntimeError:
        raise UserError("There is no home folder for caches; set AFGRL_CACHE to a writable folder.") from None


@contextmanager
def scratch_folder(within: str) -> Iterator[Path]:
    """A temporary folder in the cache, on the same disk as the final files, so that a rename is atomic."""
    parent = cache_folder() / within
    try:
        parent.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.TemporaryDirectory(dir=parent, prefix="tmp-")
    except OSError as error:
        raise UserError(
            f"The cache folder {parent} is not writable ({error.strerror}); set AFGRL_CACHE to a writable folder."
        ) from None
    with scratch as folder:
        yield Path(folder)


def cached(name: str, raw: Sequence[Path], make: Callable[[Path], dict[str, Tensor]]) -> dict[str, Tensor]:
    """The result of ``make(scratch folder)``, computed again only after a raw file has changed.

    If two processes compute it at the same time, each renames a complete file, so a reader sees one of them.
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
    """Everything the tensors depend on: the raw files, the version of PyG, our layout."""
    parts = [f"layout {LAYOUT}", f"torch_geometric {version('torch_geometric')}"]
    for path in raw:
        status = path.stat()
        parts.append(f"{path.name} {status.st_size} {status.st_mtime_ns}")
    return "\n".join(parts)


def _read(path: Path) -> dict | None:
    """The stored file, or None if it does not exist or is damaged."""
    if not path.exists():
        return None
    with no_csr_warnings():
        try:
            return torch.load(path, weights_only=True)
        except Exception:  # torch raises many types for a damaged file
            return None
