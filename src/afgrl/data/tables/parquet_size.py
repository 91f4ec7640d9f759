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


def check_decoded_size(path: Path) -> None:
    """Raise ``UserError`` if the cells are hundreds of times larger than their file. For most files the metadata rule
    that out; for others the longest text of each dictionary does, and for few the lengths of all cells are added."""
    packed = path.stat().st_size
    metadata = pq.read_metadata(path)
    columns = [(c, metadata.schema.column(c)) for c in range(metadata.num_columns)]
    chunks = [(g, d, metadata.row_group(g).column(c)) for g in range(metadata.num_row_groups) for c, d in columns]
    stored = sum(chunk.total_uncompressed_size + chunk.num_values * _width(column) for _, column, chunk in chunks)
    texts = [(g, chunk) for g, column, chunk in chunks if column.physical_type == "BYTE_ARRAY"]
    if is_suspicious(stored, packed):
        raise packed_too_densely(path)
    if not is_suspicious(stored + sum(chunk.num_values * chunk.total_uncompressed_size for _, chunk in texts), packed):
        return
    names = {chunk.path_in_schema for _, chunk in texts}
    prefixed = {chunk.path_in_schema for _, chunk in texts if PREFIXES in chunk.encodings}
    with pq.ParquetFile(path, read_dictionary=list(names - prefixed)) as file:
        most = stored
        for group, chunk in texts:
            name = chunk.path_in_schema
            first = None if name in prefixed else next(_leaves(file, group, name, 1), None)
            most += chunk.num_values * (_longest(first) or chunk.total_uncompressed_size)
        if not is_suspicious(most, packed):
            return
        for group, chunk in texts:
            name = chunk.path_in_schema
            for part in _leaves(file, group, name, MEASURED_ROWS if name in prefixed else BLOCK_ROWS):
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


def _longest(texts: pa.Array | None) -> int:
    """The length of the longest text in their dictionary; 0 if there is none."""
    if texts is None or not pa.types.is_dictionary(texts.type):
        return 0
    return int(pc.max(pc.binary_length(texts.dictionary)).as_py() or 0)


def _decoded_bytes(texts: pa.Array) -> int:
    if not pa.types.is_dictionary(texts.type):
        return int(texts.nbytes)
    return int(pc.sum(pc.binary_length(texts.dictionary).take(texts.indices).cast(pa.int64())).as_py() or 0)
