"""The dataset of a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from torch import Tensor

from afgrl.data.dataset import Dataset
from afgrl.data.splits import Splits
from afgrl.graph import Graph
from afgrl.graph.mapped import MappedGraph
from afgrl.runs import dataset_files, shared_graph
from afgrl.runs.parts.specification import SpecificationFiles


class DatasetFiles(SpecificationFiles):
    def save_dataset(self, dataset: Dataset, *, with_features: bool = True) -> str | None:
        """Copy the dataset into the run. Returns a sentence if its features are too large for that."""
        return dataset_files.save_dataset(self.path, dataset, with_features=with_features)

    def dataset(self, data_dir: str | None = None) -> Dataset:
        """The dataset as the run was trained on it."""
        return dataset_files.load_dataset(self.path, self.spec(), data_dir)

    def edges(self) -> Graph:
        """The graph with a constant feature instead of its own, for what needs only its edges."""
        return dataset_files.load_edges(self.path)

    def mapped_edges(self) -> MappedGraph:
        """The same graph, whose edges stay in their file and are not all in memory."""
        return dataset_files.map_edges(self.path)

    def labels(self) -> tuple[np.ndarray | None, Splits | None]:
        return dataset_files.load_labels(self.path)

    def data(self) -> dict[str, Any]:
        """What `afgrl check` says about the dataset; empty before it is saved."""
        return dataset_files.read_data(self.path)

    def nodes(self) -> pa.Table:
        """``id`` and the user's columns, in the order of the vectors."""
        return dataset_files.read_nodes(self.path)

    def names(self) -> tuple[str, pa.ChunkedArray] | None:
        """The column of names shown beside the ids, and the names as text, in the order of the vectors."""
        return dataset_files.read_names(self.path)

    def ids(self) -> np.ndarray:
        """[n] in the order of the vectors."""
        return dataset_files.read_ids(self.path)

    # For several processes: process 0 calls one of the first two, then all of them map the graph

    def share_features(self, x: Tensor) -> None:
        """After the dataset was saved: its features ``x``, if they are too large for the run, as a file."""
        shared_graph.share_features(self.path, self.spec(), x)

    def check_shared_graph(self, data_dir: str | None = None) -> None:
        """That the graph of an existing run is intact."""
        shared_graph.check_shared_graph(self.path, self.spec(), data_dir)

    def shared_graph(self) -> MappedGraph:
        return shared_graph.map_shared_graph(self.path, self.spec())
