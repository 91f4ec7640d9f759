"""The text by which a node is shown."""

from __future__ import annotations

import numpy as np

from afgrl.graph import Graph, as_text


def node_labels(graph: Graph) -> np.ndarray:
    """[n] the ids as text. Names of clusters and messages take the text of a node from here."""
    return as_text(graph.ids)
