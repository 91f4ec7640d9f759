"""The raw files of a benchmark: in a folder of the user's, in the cache, or on the web."""

from __future__ import annotations

import http.client
import os
import shutil
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from afgrl.data.cache import cache_folder, scratch_folder
from afgrl.errors import UserError

TIMEOUT = 30  # seconds without a byte, so that a machine without network says so soon


@dataclass(frozen=True)
class RawFiles:
    """Where PyG's dataset classes keep the files (``<root>/<folder>/raw``), and who publishes them."""

    folder: str
    names: tuple[str, ...]
    url: str  # of the folder that holds them

    def under(self, root: Path) -> list[Path]:
        return [root / self.folder / "raw" / name for name in self.names]

    def at_hand(self, data_dir: str | Path | None = None) -> list[Path] | None:
        """The files in ``data_dir`` (or ``AFGRL_DATA``), else as once downloaded; None if one is missing."""
        for root in _roots(data_dir):
            files = self.under(root)
            if all(file.is_file() for file in files):
                return files
        return None

    def locate(self, data_dir: str | Path | None = None) -> list[Path]:
        """The files, downloaded into the cache when they are not at hand."""
        return self.at_hand(data_dir) or self._download(data_dir)

    def _download(self, data_dir: str | Path | None) -> list[Path]:
        targets = self.under(cache_folder() / "raw")
        with scratch_folder("raw") as scratch:
            for target in targets:
                if target.is_file():
                    continue
                try:
                    fetch(f"{self.url}/{target.name}", scratch / target.name)
                except (OSError, http.client.HTTPException) as error:
                    raise self._missing(target.name, data_dir, error) from None
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(scratch / target.name, target)
        return targets

    def _missing(self, name: str, data_dir: str | Path | None, error: Exception) -> UserError:
        place = f"{self.folder}/raw/{name}"
        folder = user_folder(data_dir)
        where = f"in {folder}" if folder else "at hand"
        return UserError(
            f"The file {place} is not {where} and could not be downloaded from {self.url}/{name} "
            f"({_reason(error)}); put a copy at DIR/{place} and point to DIR with --data-dir or AFGRL_DATA."
        )


def user_folder(data_dir: str | Path | None = None) -> Path | None:
    """The user's folder of raw files, from the argument or ``AFGRL_DATA``; None when neither is given."""
    given = data_dir or os.environ.get("AFGRL_DATA")
    if not given:
        return None
    folder = Path(given).expanduser()
    if not folder.is_dir():
        said = "The data folder" if data_dir else "The data folder of AFGRL_DATA"
        raise UserError(f"{said} does not exist or is no folder: {folder}.")
    return folder


def fetch(url: str, target: Path) -> None:
    """Download one file, its sender verified (as PyG does not do): Planetoid's files are pickles, so code."""
    with urllib.request.urlopen(url, timeout=TIMEOUT) as answer, open(target, "wb") as file:
        shutil.copyfileobj(answer, file)
        expected = answer.headers.get("Content-Length")
        if expected is not None and file.tell() != int(expected):
            raise OSError(f"the connection ended after {file.tell():,} of {int(expected):,} bytes")


def _roots(data_dir: str | Path | None) -> list[Path]:
    folder = user_folder(data_dir)
    downloaded = cache_folder() / "raw"
    return [downloaded] if folder is None else [folder, downloaded]


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None) or error
    return str(getattr(reason, "strerror", None) or reason).rstrip(".") or type(error).__name__
