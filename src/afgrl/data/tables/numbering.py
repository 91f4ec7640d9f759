"""The ids of large tables → row numbers, by DuckDB, which uses the disk beyond a limit of memory.

It was chosen by a measurement: results/large-tables.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from afgrl.data.spill import BLOCK_ROWS, Spill
from afgrl.errors import UserError

ENGINE_MEMORY = 4 << 30  # bytes that DuckDB uses before it writes to the disk
MAX_THREADS = 4  # each has buffers of its own
ENDS = pa.schema({"row": pa.int64(), "source": pa.string(), "target": pa.string()})
Block = tuple[pa.ChunkedArray, pa.ChunkedArray]  # the ids of the sources and of the targets of some edges

# In the order in which they occur, those of the sources first.
UNLISTED = """
    SELECT id, min(place) AS place
    FROM (SELECT source AS id, row AS place FROM ends UNION ALL SELECT target, row + $rows FROM ends)
    ANTI JOIN ids USING (id) GROUP BY id ORDER BY place
"""


def check_engine() -> None:
    """Raise ``UserError`` if DuckDB is not installed."""
    try:
        import duckdb  # noqa: F401
    except ImportError:
        raise UserError("Tables of this size are read with DuckDB: pip install 'afgrl[large]'.") from None


def number_ids(listed: pa.Array, blocks: Iterable[Block], spill: Spill) -> tuple[pa.Array, np.ndarray]:
    """All ids, the listed ones first, and the edges as positions among them: [2, e] int32 or int64."""
    import duckdb

    config: dict[str, Any] = {
        "memory_limit": f"{ENGINE_MEMORY >> 20}MiB", "temp_directory": str(spill.new_file()),
        "threads": min(os.cpu_count() or 1, MAX_THREADS),
    }  # fmt: skip
    with duckdb.connect(str(spill.new_file()), config=config) as database:
        database.execute("SET enable_progress_bar = false")  # it would be printed between the lines of --json
        database.register("given", pa.RecordBatchReader.from_batches(ENDS, _with_rows(blocks)))
        database.execute("CREATE TABLE ends AS SELECT * FROM given")
        database.unregister("given")
        n_edges = database.execute("SELECT count(*) FROM ends").fetchall()[0][0]
        database.register("given", pa.table({"id": listed, "place": np.arange(len(listed))}))
        database.execute("CREATE TABLE ids AS SELECT * FROM given")
        unlisted = _column(database.sql(UNLISTED, params={"rows": n_edges}), "id")
        database.register("given", pa.table({"id": unlisted, "place": np.arange(len(unlisted)) + len(listed)}))
        database.execute("INSERT INTO ids SELECT * FROM given")
        n = len(listed) + len(unlisted)
        edge_index = np.empty((2, n_edges), dtype=np.int32 if n < 2**31 else np.int64)
        for row, end in enumerate(("source", "target")):
            joined = database.sql(f"SELECT row, place FROM ends JOIN ids ON ends.{end} = ids.id")
            for batch in joined.to_arrow_reader(BLOCK_ROWS):
                edge_index[row, batch["row"].to_numpy()] = batch["place"].to_numpy()
    return pa.concat_arrays([listed, unlisted]), edge_index


def _with_rows(blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
    first = 0
    for source, target in blocks:
        rows = np.arange(first, first + len(source))
        first += len(source)
        yield from pa.table([pa.array(rows), source, target], schema=ENDS).to_batches()


def _column(result: Any, name: str) -> pa.Array:
    """A column of text of a result that is small enough for the memory."""
    found = result.to_arrow_table()[name].cast(pa.string()).combine_chunks()
    return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)
