"""Compressed files, with a limit on their unpacked size."""

from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path

from afgrl.errors import UserError

MAX_UNPACKED_BYTES = 8 << 30


def file_suffix(path: Path) -> str:
    """The suffix that tells the format: ``.csv`` for ``edges.csv.gz``."""
    return Path(path.stem).suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()


def open_unpacked(path: Path) -> io.BufferedIOBase:
    """The bytes of a file, gzip unpacked. A file above the limit is refused before it fills the memory."""
    if path.suffix.lower() != ".gz":
        return open(path, "rb")
    with gzip.open(path) as packed:
        total = 0
        try:
            while part := packed.read(1 << 24):
                total += len(part)
                if total > MAX_UNPACKED_BYTES:
                    raise _too_large(path)
        except (OSError, EOFError) as error:
            raise UserError(f"The file {path} cannot be unpacked: {error}.") from None
    return gzip.open(path)


def check_zip_size(path: Path) -> None:
    """Refuse a zip archive, such as an .npz file, that unpacks to more than the limit."""
    with zipfile.ZipFile(path) as archive:
        total = sum(entry.file_size for entry in archive.infolist())
    if total > MAX_UNPACKED_BYTES:
        raise _too_large(path)


def _too_large(path: Path) -> UserError:
    limit = MAX_UNPACKED_BYTES
    size = f"{limit / 2**30:.0f} GiB" if limit >= 1 << 30 else f"{limit / 2**20:.0f} MiB"
    return UserError(f"The file {path} unpacks to more than {size}, the largest size that is read.")


def short_reason(error: BaseException) -> str:
    """The first sentence of another library's error, without its period."""
    return str(error).strip().split("\n")[0].split(". ")[0].rstrip(".")
