"""The raw files of a benchmark: in the user's data folder, in the cache, or downloaded."""

from __future__ import annotations

import http.client
import os
import shutil
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from afgrl.data.benchmarks.cache import cache_folder, scratch_folder
from afgrl.data.unpacking import home_expanded
from afgrl.errors import UserError

TIMEOUT = 30  # seconds without data, so that a machine without network fails soon


@dataclass(frozen=True)
class RawFiles:
    """Files in the folder that PyG's dataset classes use, ``<root>/<folder>/raw``."""

    folder: str
    names: tuple[str, ...]
    url: str  # of the folder they are published in

    def under(self, root: Path) -> list[Path]:
        return [root / self.folder / "raw" / name for name in self.names]

    def available(self, data_dir: str | Path | None = None) -> list[Path] | None:
        """The files in ``data_dir`` (or ``AFGRL_DATA``) or in the cache; None if one is missing."""
        for root in _roots(data_dir):
            files = self.under(root)
            if all(file.is_file() for file in files):
                return files
        return None

    def locate(self, data_dir: str | Path | None = None) -> list[Path]:
        """The files, downloaded into the cache if they are not available locally."""
        return self.available(data_dir) or self._download(data_dir)

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
        file = f"{self.folder}/raw/{name}"
        folder = user_folder(data_dir)
        where = f"in {folder}" if folder else "available locally"
        return UserError(
            f"The file {file} is not {where} and could not be downloaded from {self.url}/{name} "
            f"({_reason(error)}); put a copy at DIR/{file} and pass DIR with --data-dir or AFGRL_DATA."
        )


def user_folder(data_dir: str | Path | None = None) -> Path | None:
    """The user's folder of raw files, from the argument or ``AFGRL_DATA``; None if neither is set."""
    given = data_dir or os.environ.get("AFGRL_DATA")
    if not given:
        return None
    folder = home_expanded(given)
    if not folder.is_dir():
        what = "The data folder" if data_dir else "The data folder in AFGRL_DATA"
        raise UserError(f"{what} does not exist or is not a folder: {folder}.")
    return folder


def fetch(url: str, target: Path) -> None:
    """Download one file and verify the server's certificate, which PyG does not: Planetoid's files are pickles."""
    with urllib.request.urlopen(url, timeout=TIMEOUT) as response, open(target, "wb") as file:
        shutil.copyfileobj(response, file)
        expected = response.headers.get("Content-Length")
        if expected is not None and file.tell() != int(expected):
            raise OSError(f"the connection ended after {file.tell():,} of {int(expected):,} bytes")


def _roots(data_dir: str | Path | None) -> list[Path]:
    folder = user_folder(data_dir)
    downloaded = cache_folder() / "raw"
    return [downloaded] if folder is None else [folder, downloaded]


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None) or error
    return str(getattr(reason, "strerror", None) or reason).rstrip(".") or type(error).__name__
