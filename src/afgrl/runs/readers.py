"""Reading the files of a run: whatever is wrong with one of them becomes one sentence that names it."""

from __future__ import annotations

import errno
import json
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from afgrl.data.formats.arrays import read_array as array_of
from afgrl.data.native_files import native_file
from afgrl.errors import AfgrlError, UserError

TRAIN_AGAIN = "train the run again with `afgrl fit … --force`"
RESUME = "write it again with `afgrl fit … --resume`"
# What to do about a damaged file, by its name; about any other, train again.
ADVICE = {
    "environment.json": RESUME,
    "embeddings.parquet": RESUME,
    "model.safetensors": RESUME,
    "model.json": RESUME,
    "predictions.npz": RESUME,
    "checkpoint.pt": "delete it, and `afgrl fit … --resume` starts from the first epoch",
    "history.jsonl": "delete it to continue without it",
    "evaluations.jsonl": "delete it to continue without it",
    "clusters.*": "write it again with `afgrl cluster`",
    "added-*.parquet": "delete it, and add the nodes again with `afgrl add`",
    "scores.json": "write it again with `afgrl evaluate`",
    "quality.json": "write it again with `afgrl quality`",
    "projection-*.npy": "delete it to compute it again",
    "index.*": "delete index.json to build the index again",
}
ABOUT_CONTENTS = (None, errno.EINVAL)  # of PyArrow, and for a damaged offset; any other is about the disk
MAX_REASON = 160  # characters
SMALL_FILE = 16 << 20  # bytes; an intact file of this size needs little memory


@contextmanager
def reading(file: Path, advice: str | None = None) -> Iterator[None]:
    """Turns the exceptions of a reader, and of checks of what it read, into one sentence about the file.

    Damaged bytes can raise nearly any exception, so all are caught; the original one is kept as the cause. A disk that
    cannot be read and a lack of memory are not about the file.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise UserError(
            f"The run {str(file.parent)!r} is incomplete: it has no {file.name}; {advice or advice_for(file)}."
        ) from error
    except OSError as error:
        if error.errno not in ABOUT_CONTENTS:
            raise
        raise damaged(file, error, advice) from error
    except UserError as error:
        if repr(str(file)) in str(error):
            raise
        raise damaged(file, error, advice) from error
    except (AfgrlError, torch.OutOfMemoryError):
        raise
    except MemoryError as error:
        if file.stat().st_size > SMALL_FILE:
            raise
        raise damaged(file, error, advice) from error  # a damaged header claims a size that cannot be
    except Exception as error:
        raise damaged(file, error, advice) from error


def damaged(file: Path, error: Exception, advice: str | None = None) -> UserError:
    lines = str(error).strip().splitlines()
    reason = lines[0].strip().rstrip(".:;") if lines else type(error).__name__
    if isinstance(error, KeyError):
        reason = f"it has no entry {reason}"
    if len(reason) > MAX_REASON:
        reason = reason[:MAX_REASON] + "…"
    return UserError(
        f"The file {str(file)!r} is damaged or was made by another version of afgrl ({reason}); "
        f"{advice or advice_for(file)}."
    )


def advice_for(file: Path) -> str:
    return next((advice for pattern, advice in ADVICE.items() if fnmatchcase(file.name, pattern)), TRAIN_AGAIN)


def check(condition: bool, reason: str) -> None:
    """To be used inside ``reading``."""
    if not condition:
        raise ValueError(reason)


def read_json(file: Path) -> Any:
    with reading(file):
        return json.loads(file.read_text(encoding="utf-8"))


def read_record(file: Path, **types: type | tuple[type, ...]) -> dict[str, Any]:
    """A JSON object that has at least these entries, of these types."""
    with reading(file):
        value = read_json(file)
        check_record(value, types)
        record: dict[str, Any] = value
        return record


def check_record(value: Any, types: dict[str, type | tuple[type, ...]]) -> None:
    check(isinstance(value, dict), "it is not a JSON object")
    for name, kind in types.items():
        found = value[name]
        fits = isinstance(found, kind) and not (isinstance(found, bool) and kind is not bool)  # a bool is an int too
        check(fits, f"its entry {name!r} cannot be {found!r}")


def read_table(file: Path, columns: list[str] | None = None) -> pa.Table:
    """A Parquet file, or some of its columns."""
    with reading(file), native_file(file) as opened:
        table = pq.read_table(opened, columns=columns, page_checksum_verification=True)
        table.validate(full=True)  # the values of strings and lists are offsets that native code follows
        return table


def row_group_sizes(file: Path) -> list[int]:
    with reading(file), native_file(file) as opened:
        metadata = pq.read_metadata(opened)
        return [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]


def read_row_groups(file: Path, columns: list[str], groups: Iterable[int] | None = None) -> Iterator[pa.Table]:
    """These columns of a Parquet file, one row group in memory at a time, with the checks of ``read_table``; of all
    groups, or of some."""
    with reading(file), native_file(file) as opened, pq.ParquetFile(opened, page_checksum_verification=True) as parquet:
        for group in range(parquet.num_row_groups) if groups is None else groups:
            table = parquet.read_row_group(group, columns)
            check(table.column_names == columns, f"it does not have the columns {', '.join(columns)}")
            table.validate(full=True)
            yield table


def read_schema(file: Path) -> pa.Schema:
    with reading(file), native_file(file) as opened:
        return pq.read_schema(opened)


def n_rows(file: Path) -> int:
    with reading(file), native_file(file) as opened:
        return int(pq.read_metadata(opened).num_rows)


def read_array(file: Path) -> np.ndarray:
    """An array of a .npy file."""
    with reading(file), open(file, "rb") as opened:
        return array_of(opened, file.stat().st_size)


def read_arrays(file: Path) -> dict[str, np.ndarray]:
    """The arrays of a .npz file."""
    with reading(file), zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        return {n.removesuffix(".npy"): array_of(BytesIO(archive.read(n)), archive.getinfo(n).file_size) for n in names}
