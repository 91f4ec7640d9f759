"""How large the cells of a Parquet file become, before they are read: a dictionary stores a long text once, and each
cell that has it takes a few bits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from afgrl.data.spill import BLOCK_ROWS
from afgrl.data.unpacking import is_suspicious, packed_too_densely

# Bytes of a cell; of a text, those of its offset.
WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": 4}
PREFIXES = "DELTA_BYTE_ARRAY"  # stores how much of the text before a text repeats; Arrow reads no dictionary from it
MEASURED_ROWS = 64  # at once, of such texts
BUFFER = 1 << 16  # bytes, so that a few rows do not read all


def check_decoded_size(path: Path) -> None:
    """Raise ``UserError`` if the cells are hundreds of times larger than their file. For most files the metadata rule
    that out; for others the longest text of each dictionary does, and for few the lengths of all cells are added."""
    packed = path.stat().st_size
    metadata = pq.read_metadata(path)
    columns = [metadata.schema.column(c) for c in range(metadata.num_columns)]
    groups = [(g, metadata.row_group(g)) for g in range(metadata.num_row_groups)]
    if is_suspicious(sum(group.total_byte_size for _, group in groups), packed):
        raise packed_too_densely(path)
    width = sum(map(_width, columns))
    most = sum((group.total_byte_size + width) * group.num_rows for _, group in groups)
    has_lists = any(column.max_repetition_level for column in columns)
    if not has_lists and not is_suspicious(most, packed):
        return
    texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
    others = [column.path for column in columns if column.path not in texts]
    with (
        pq.ParquetFile(path, buffer_size=BUFFER) as plain,
        pq.ParquetFile(path, buffer_size=BUFFER, read_dictionary=texts) as coded,
    ):
        stored = most = 0
        chunks = []  # of texts
        for g, group in groups:
            if not group.num_rows:
                continue
            # Arrow ends the interpreter if the metadata of a column is damaged, but raises an error if a row is read.
            next(plain.iter_batches(1, row_groups=[g], columns=others), None)
            longest = {name: _longest(plain, coded, g, name) for name in texts}
            for c, column in enumerate(columns):
                chunk = group.column(c)
                stored += chunk.total_uncompressed_size + chunk.num_values * _width(column)
                if column.path in longest:
                    length = None if PREFIXES in chunk.encodings else longest[column.path]
                    most += chunk.num_values * (length or chunk.total_uncompressed_size)
                    chunks.append((g, column.path, plain if length is None else coded))
        if is_suspicious(stored, packed):
            raise packed_too_densely(path)
        if not is_suspicious(stored + most, packed):
            return
        for g, name, file in chunks:
            for part in _leaves(file, g, name, BLOCK_ROWS if file is coded else MEASURED_ROWS):
                stored += _decoded_bytes(part)
                if is_suspicious(stored, packed):
                    raise packed_too_densely(path)


def _width(column: pq.ColumnSchema) -> int:
    return int(column.length) if column.physical_type == "FIXED_LEN_BYTE_ARRAY" else WIDTHS.get(column.physical_type, 0)


def _leaves(file: pq.ParquetFile, group: int, name: str, rows: int) -> Iterator[pa.Array]:
    """The texts of a column, without lists and structs around them, some rows at a time."""
    for batch in file.iter_batches(rows, row_groups=[group], columns=[name]):
        column = batch.column(0)
        while pa.types.is_nested(column.type):
            parts = column.flatten()
            column = parts[0] if isinstance(parts, list) else parts
        yield column


def _longest(plain: pq.ParquetFile, coded: pq.ParquetFile, group: int, name: str) -> int | None:
    """The length of the longest text in the dictionary of a column, which is read with the first row; None if Arrow
    reads no dictionary."""
    try:
        first = next(_leaves(coded, group, name, 1), None)
    except OSError:
        next(_leaves(plain, group, name, 1), None)
        return None
    if first is None or not pa.types.is_dictionary(first.type):
        return None
    return int(pc.max(pc.binary_length(first.dictionary)).as_py() or 0)


def _decoded_bytes(texts: pa.Array) -> int:
    if not pa.types.is_dictionary(texts.type):
        return int(texts.nbytes)
    return int(pc.sum(pc.binary_length(texts.dictionary).take(texts.indices).cast(pa.int64())).as_py() or 0)
