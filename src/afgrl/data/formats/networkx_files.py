"""GraphML and GEXF files, parsed by NetworkX."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

from afgrl.data.dataset import Dataset
from afgrl.data.ingest import IngestReport
from afgrl.data.networkx_tables import report_ignored, tables_from_networkx
from afgrl.data.tables.assemble import dataset_from_tables
from afgrl.data.tables.encode import Fitted
from afgrl.data.tables.options import ReadOptions
from afgrl.data.tables.roles import TableNames
from afgrl.data.unpacking import file_suffix, open_unpacked, short_reason
from afgrl.errors import UserError

NETWORKX_SUFFIXES = (".graphml", ".gexf")


def load_networkx_file(path: Path, options: ReadOptions, fitted: Fitted = None) -> Dataset:
    import networkx as nx

    with open_unpacked(path) as file:
        content = file.read()
    if re.search(rb"<!ENTITY", content[: 1 << 20], re.IGNORECASE):
        raise UserError(f"The file {path} declares XML entities, which are not read because they can expand endlessly.")
    file_format = file_suffix(path)[1:]
    read = nx.read_graphml if file_format == "graphml" else nx.read_gexf
    try:
        graph = read(io.BytesIO(content))
    except Exception as error:  # the parsers raise many types, KeyError and ValueError among them
        raise UserError(f"The file {path} is damaged or not {file_format}: {short_reason(error)}.") from None
    if graph.number_of_nodes() == 0:
        raise UserError(f"The graph in {path} has no nodes.")
    nodes, edges = tables_from_networkx(graph)
    options = options if options.id else replace(options, id="id")
    names, report = TableNames(path.name, path.name), IngestReport()
    report_ignored(graph, "weight", report, names.edges)
    return dataset_from_tables(nodes, edges, options, fitted=fitted, name=path.stem, names=names, report=report)
