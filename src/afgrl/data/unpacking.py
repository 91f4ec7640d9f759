"""Files of unknown origin: what may be opened, and compressed files, with a limit on their unpacked size."""

from __future__ import annotations

import gzip
import io
import os
import stat
import zipfile
import zlib
from pathlib import Path

from afgrl.amounts import byte_size
from afgrl.errors import UserError

MAX_UNPACKED_BYTES = 8 << 30
# Tables shrink to a tenth or so, sparse arrays to a hundredth. What shrinks more and unpacks to more than this was made
# to fill a memory.
MAX_RATIO, FREE_BYTES = 200, 1 << 30


def file_suffix(path: Path) -> str:
    """The suffix that tells the format: ``.csv`` for ``edges.csv.gz``."""
    return Path(path.stem).suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()


def home_expanded(path: str | Path) -> Path:
    """``~`` replaced by the home folder."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UserError(f"The home folder of {str(path)!r} is not known; write the whole path.") from None


def is_file_or_folder(path: Path) -> bool:
    """Whether there is anything; what could block or never end, such as a FIFO or a device, is refused."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError) as error:  # a name too long, no permission, a zero byte
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"The path {_shortened(str(path))!r} cannot be opened: {reason}.") from None
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise UserError(f"{str(path)!r} is a {_kind(mode)}, not a file or folder.")
    return True


def _kind(mode: int) -> str:
    kinds = {"FIFO": stat.S_ISFIFO, "socket": stat.S_ISSOCK, "device": lambda m: stat.S_ISCHR(m) or stat.S_ISBLK(m)}
    return next((name for name, matches in kinds.items() if matches(mode)), "special file")


def _shortened(text: str) -> str:
    return text if len(text) <= 200 else text[:197] + "…"


def open_unpacked(path: Path) -> io.BufferedIOBase:
    """The bytes of a file, gzip unpacked. A file above the limit is refused before it fills the memory."""
    if path.suffix.lower() != ".gz":
        return open(path, "rb")
    packed_size, total = os.path.getsize(path), 0
    with gzip.open(path) as packed:
        try:
            while part := packed.read(1 << 24):
                total += len(part)
                check_unpacked_size(path, total, packed_size)
        except (OSError, EOFError, zlib.error) as error:
            raise UserError(f"The file {path} cannot be unpacked: {short_reason(error)}.") from None
    return gzip.open(path)


def check_zip(path: Path) -> zipfile.ZipFile:
    """An open zip archive, such as an .npz file, that is not encrypted and unpacks to less than the limit."""
    try:
        archive = zipfile.ZipFile(path)
        entries = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise UserError(f"The file {path} is not an .npz file or is truncated: {short_reason(error)}.") from None
    if any(entry.flag_bits & 1 for entry in entries):
        archive.close()
        raise UserError(f"The file {path} is encrypted.")
    try:
        check_unpacked_size(path, sum(entry.file_size for entry in entries), os.path.getsize(path))
    except UserError:
        archive.close()
        raise
    return archive


def check_unpacked_size(path: Path, size: int, packed_size: int) -> None:
    limit = MAX_UNPACKED_BYTES
    if size > limit:
        raise UserError(f"The file {path} unpacks to more than {byte_size(limit)}, the largest size that is read.")
    if is_suspicious(size, packed_size):
        raise packed_too_densely(path)


def is_suspicious(size: int, packed_size: int) -> bool:
    return size > FREE_BYTES and size > MAX_RATIO * packed_size


def packed_too_densely(path: Path) -> UserError:
    return UserError(f"The file {path} unpacks to more than {MAX_RATIO} times its size, so it is not read.")


def short_reason(error: BaseException) -> str:
    """The first sentence of another library's error, without its period."""
    text = str(error).strip().split("\n")[0].split(". ")[0].rstrip(".")
    return _shortened(text) or type(error).__name__
