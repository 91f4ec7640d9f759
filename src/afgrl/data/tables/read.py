"""A table from a CSV, TSV or Parquet file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from afgrl.data.ingest import IngestReport
from afgrl.data.spill import BLOCK_ROWS, Spill
from afgrl.data.tables.csv_file import CSV_SUFFIXES, read_csv_file
from afgrl.data.tables.csv_format import EmptyTable, check_column_names
from afgrl.data.tables.parquet_size import check_decoded_size
from afgrl.data.unpacking import check_unpacked_size, file_suffix, is_file_or_folder, open_unpacked, short_reason
from afgrl.errors import UserError

PARQUET_SUFFIXES = (".parquet", ".pq")
CELL_BYTES = 4  # at least, once read
PACKED = 5  # times smaller, about, is a table that gzip packed
TABLE_SUFFIXES = (*CSV_SUFFIXES, *PARQUET_SUFFIXES)
READ_BY_PANDAS = {
    **dict.fromkeys((".xlsx", ".xlsm", ".xls", ".ods"), "read_excel({})"), ".json": "read_json({})",
    **dict.fromkeys((".jsonl", ".ndjson"), "read_json({}, lines=True)"), ".xml": "read_xml({})",
    **dict.fromkeys((".feather", ".arrow"), "read_feather({})"), ".orc": "read_orc({})", ".dta": "read_stata({})",
    ".sav": "read_spss({})", ".sas7bdat": "read_sas({})",
}  # fmt: skip


def read_table(
    path: Path, *, encoding: str | None = None, edges: bool = False, header: str | None = None,
    report: IngestReport | None = None, spill: Spill | None = None,
) -> pa.Table:  # fmt: skip
    """The table in a file. Cells of CSV files stay text, so that an id such as 007 keeps its zeros; empty cells are
    null. With ``edges``, the file may be an edge list: no header, comments, spaces between columns; ``header`` says
    whether there is one. With ``spill``, the cells are there instead of in memory."""
    if not is_file_or_folder(path):
        raise UserError(f"File not found: {path}.")
    if path.is_dir():
        raise UserError(f"{path} is a folder, not a table.")
    if path.stat().st_size == 0:
        raise EmptyTable(f"The file {path} is empty.")
    check_format(path)
    is_parquet = file_suffix(path) in PARQUET_SUFFIXES
    if is_parquet:
        table = _read_parquet(path, spill)
    else:
        table = read_csv_file(path, encoding, edges=edges, header=header, report=report, spill=spill)
    if table.num_rows == 0:
        raise EmptyTable(f"The file {path} has a header but no rows.")
    return table


def check_format(*files: Path) -> None:
    """Refuse a file that pandas converts to one that is read."""
    for file in files:
        if file.suffix.lower() in READ_BY_PANDAS:
            read = READ_BY_PANDAS[file.suffix.lower()].format(repr(str(file)))
            raise UserError(
                f"The file {file} has a format that is not read; two lines of Python convert it: import pandas; "
                f"pandas.{read}.to_csv({str(file.with_suffix('.csv'))!r}, index=False)."
            )


def table_bytes(path: Path) -> int:
    """About the size of a table in memory: that of a text file, or what a Parquet file says; 0 if it says nothing."""
    if file_suffix(path) not in PARQUET_SUFFIXES:
        return path.stat().st_size * (PACKED if path.suffix.lower() == ".gz" else 1)
    try:
        with pq.ParquetFile(path) as file:
            groups = (file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups))
            return sum(groups)
    except Exception:  # a damaged file is refused when it is read
        return 0


def table_rows(path: Path) -> int:
    """About how many rows a table has: what a Parquet file says, or from the length of the first lines."""
    if file_suffix(path) in PARQUET_SUFFIXES:
        with pq.ParquetFile(path) as file:
            return int(file.metadata.num_rows)
    with open_unpacked(path) as text:
        head = text.read(1 << 20)
    return table_bytes(path) * max(head.count(b"\n"), 1) // max(len(head), 1)


def _read_parquet(path: Path, spill: Spill | None) -> pa.Table:
    try:
        with pq.ParquetFile(path) as file:  # run-length encoding stores billions of equal cells in a few bytes
            cells = file.metadata.num_rows * file.metadata.num_columns
            check_unpacked_size(path, CELL_BYTES * cells, path.stat().st_size)
            check_decoded_size(path)
            table = None if spill is None else spill.table(file.schema_arrow, file.iter_batches(BLOCK_ROWS))
        table = pq.read_table(path) if table is None else table
        table.validate(full=True)  # Arrow does not check UTF-8 and offsets when it reads them
    except (MemoryError, UserError):
        raise
    except Exception as error:  # Arrow raises many types for a damaged file
        raise UserError(f"The file {path} is not a Parquet file or is damaged: {short_reason(error)}.") from None
    check_column_names(path, table.column_names)
    return table
