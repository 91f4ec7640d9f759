"""A graph together with its labels and splits, which training must not see."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from afgrl.data.ingest import IngestReport
from afgrl.data.splits import Splits
from afgrl.graph import Graph, as_text


@dataclass(frozen=True, eq=False)
class Ingested:
    """What a user's files contain besides the graph."""

    columns: pa.Table  # ``id`` and the columns of the nodes with their types, in node order
    n_listed: int  # the first nodes are rows of a node table; the others occur in edges only
    label: str | None  # name of the label column
    classes: list[str] | None  # names of the classes 0…c-1
    report: IngestReport
    id_column: str | None = None  # which column of the node table held the ids; None: its row numbers are the ids
    name_column: str | None = None  # which column holds names to show beside the ids

    @property
    def numbered(self) -> bool:
        """Whether ids are row numbers, which do not identify nodes of another table."""
        return self.n_listed > 0 and self.id_column is None


@dataclass(frozen=True, eq=False)
class Dataset:
    """What a loader returns. Labels and splits are here and not in the graph, so that only evaluation reads them."""

    name: str
    graph: Graph
    y: np.ndarray | None = None  # [n] int64, classes 0…c-1, -1 for unlabeled nodes
    splits: Splits | None = None
    ingested: Ingested | None = None

    @property
    def n_classes(self) -> int:
        return 0 if self.y is None else int(self.y.max()) + 1

    @property
    def node_names(self) -> np.ndarray:
        """[n] the text by which a node is shown: its name, or its id where it has none."""
        ids = as_text(self.graph.ids)
        if self.ingested is None or self.ingested.name_column is None:
            return ids
        names = self.ingested.columns[self.ingested.name_column].cast(pa.string()).to_pylist()
        return np.array([name or node_id for name, node_id in zip(names, ids, strict=True)], dtype=object)

    @property
    def feature_names(self) -> list[str]:
        if self.graph.table_encoder is not None:
            names: list[str] = self.graph.table_encoder.names
            return names
        return [f"feature {i}" for i in range(self.graph.n_features)]
