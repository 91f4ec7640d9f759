"""What ``large_tables`` measures: one engine in a separate process, which prints the edges that it found."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

GIB = 1 << 30


def in_memory(folder: Path, form: str, temporary: Path, memory: float) -> dict[str, Any]:
    """The functions that read small tables: all cells are in memory."""
    import torch

    from afgrl.data.ingest import IngestReport
    from afgrl.data.tables.edges import number_nodes, read_edges
    from afgrl.data.tables.ids import ids_as_text
    from afgrl.data.tables.options import ReadOptions
    from afgrl.data.tables.read import read_table
    from afgrl.data.tables.roles import TableNames
    from afgrl.graph import Graph

    report, names = IngestReport(), TableNames()
    listed = ids_as_text(read_table(folder / f"nodes.{form}").column("id"))
    table = read_table(folder / f"edges.{form}", edges=True)
    ends, weight = read_edges(table, ("source", "target"), listed, ReadOptions(), report, "edges")
    ids, edge_index = number_nodes(listed, ends, report, names, weighted=True)
    return _of_graph(Graph(torch.ones(len(ids), 1), torch.from_numpy(edge_index), edge_weight=torch.from_numpy(weight)))


def afgrl(folder: Path, form: str, temporary: Path, memory: float) -> dict[str, Any]:
    """``afgrl.load``: the whole dataset with the features of the nodes, from the path for large tables."""
    os.environ["AFGRL_CACHE"] = str(temporary)
    import afgrl
    from afgrl.data import files
    from afgrl.data.tables import numbering

    files.LARGE_BYTES, numbering.ENGINE_MEMORY = 0, int(memory * GIB)
    return _of_graph(afgrl.load(str(folder)).graph)


def _of_graph(graph: Any) -> dict[str, Any]:
    source, target = graph.edge_index
    first = source < target
    total = float(graph.edge_weight[first].double().sum()) * 2  # a graph has the mean of both directions
    return {"edges": int(first.sum()), "key_sum": int((source[first] + target[first]).sum()), "weight": total}


def duckdb(folder: Path, form: str, temporary: Path, memory: float) -> dict[str, Any]:
    import duckdb

    read = {"csv": "read_csv('{}', all_varchar=true)", "parquet": "read_parquet('{}')"}[form]
    nodes, edges = (read.format(folder / f"{name}.{form}") for name in ("nodes", "edges"))
    config = {"memory_limit": f"{memory}GiB", "temp_directory": str(temporary), "threads": 2}
    with duckdb.connect(str(temporary / "tables.duckdb"), config=config) as database:
        database.execute(f"CREATE TABLE ids AS SELECT id, row_number() OVER () - 1 AS place FROM {nodes}")
        result = temporary / "result.parquet"
        database.execute(f"""
            COPY (
                SELECT least(s.place, t.place) AS source, greatest(s.place, t.place) AS target,
                       sum(weight::DOUBLE) AS weight
                FROM {edges} e JOIN ids s ON e.source = s.id JOIN ids t ON e.target = t.id
                WHERE s.place <> t.place GROUP BY 1, 2 ORDER BY 1, 2
            ) TO '{result}'""")
        count = "SELECT count(*), sum(source + target)::BIGINT, sum(weight) FROM read_parquet($1)"
        return _counted(database.execute(count, [str(result)]).fetchone())


def polars(folder: Path, form: str, temporary: Path, memory: float) -> dict[str, Any]:
    os.environ |= {
        "POLARS_TEMP_DIR": str(temporary), "POLARS_OOC_SPILL_DIR": str(temporary), "POLARS_MAX_THREADS": "2",
        "POLARS_OOC_MEMORY_BUDGET_MB": str(int(memory * 1024)),
    }  # fmt: skip
    import polars as pl

    def scan(name: str) -> pl.LazyFrame:
        file = folder / f"{name}.{form}"
        return pl.scan_csv(file, infer_schema=False) if form == "csv" else pl.scan_parquet(file)

    ids = scan("nodes").select("id").with_row_index("place")
    source = ids.rename({"id": "source", "place": "s"})
    target = ids.rename({"id": "target", "place": "t"})
    result = temporary / "result.parquet"
    joined = scan("edges").join(source, on="source").join(target, on="target").filter(pl.col("s") != pl.col("t"))
    ends = pl.min_horizontal("s", "t").alias("a"), pl.max_horizontal("s", "t").alias("b")
    weight = pl.col("weight").cast(pl.Float64)
    grouped = joined.select(*ends, weight).group_by("a", "b").agg(pl.col("weight").sum()).sort("a", "b")
    grouped.sink_parquet(result, engine="streaming")
    keys = (pl.col("a").cast(pl.Int64) + pl.col("b").cast(pl.Int64)).sum()
    counted = pl.scan_parquet(result).select(pl.len(), keys, pl.col("weight").sum()).collect(engine="streaming")
    return _counted(counted.row(0))


def _counted(row: Any) -> dict[str, Any]:
    return dict(zip(("edges", "key_sum", "weight"), (int(row[0]), int(row[1]), float(row[2])), strict=True))


ENGINES: dict[str, Callable[[Path, str, Path, float], dict[str, Any]]] = {
    "memory": in_memory, "duckdb": duckdb, "polars": polars, "afgrl": afgrl,
}  # fmt: skip


def main(engine: str, folder: str, form: str, temporary: str, memory: str) -> None:
    print(json.dumps(ENGINES[engine](Path(folder), form, Path(temporary), float(memory))))
