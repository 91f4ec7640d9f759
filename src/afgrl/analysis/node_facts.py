"""What two nodes can have in common besides the cells of their columns: linked nodes, words, features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from afgrl.analysis.traits import traits_of
from afgrl.runs.added import additions
from afgrl.runs.folder import Run

MAX_LISTED = 200  # linked nodes and words of one node
LISTED_KINDS = ("word", "feature")  # categories, dates and numbers are columns of the page


@dataclass(frozen=True, eq=False)
class Lists:
    """A list for each node, cut to a maximal length. The cut ones keep their rarest entries, which say most."""

    starts: np.ndarray  # [n + 1]
    values: np.ndarray  # [starts[-1]]
    full: np.ndarray  # [n] the lengths before the cut

    @classmethod
    def rarest_first(cls, matrix: sp.csr_array, max_entries: int | None = None) -> Lists:
        """The columns of the entries of each row; columns with few entries first. With ``max_entries``, lists are cut
        to the largest length at which all of them together have at most that many entries."""
        lengths = np.diff(matrix.indptr)
        frequency = np.bincount(matrix.indices, minlength=matrix.shape[1])
        row = np.repeat(np.arange(matrix.shape[0]), lengths)
        order = np.lexsort((matrix.indices, frequency[matrix.indices], row))
        rank = np.arange(len(row)) - np.repeat(matrix.indptr[:-1], lengths)
        longest = MAX_LISTED if max_entries is None else _longest(lengths, max_entries)
        kept = np.minimum(lengths, longest)
        starts = np.concatenate([[0], np.cumsum(kept)])
        return cls(starts, matrix.indices[order][rank < longest].astype(np.int32), lengths.astype(np.int32))

    def extended(self, n: int) -> Lists:
        """With empty lists for ``n`` more nodes."""
        starts = np.concatenate([self.starts, np.full(n, self.starts[-1])])
        return Lists(starts, self.values, np.concatenate([self.full, np.zeros(n, np.int32)]))

    def of(self, row: int) -> list[int]:
        listed: list[int] = self.values[self.starts[row] : self.starts[row + 1]].tolist()
        return listed


@dataclass(frozen=True, eq=False)
class NodeFacts:
    """For each node the rows it is linked to, and its words or features as positions in ``names``. Those of nodes that
    were added after training are not stored, so their lists are empty."""

    edges: Lists
    words: Lists
    names: list[str]

    @classmethod
    def of_run(cls, run: Run, max_entries: int | None = None) -> NodeFacts:
        """Words are left out for a run whose features are outside of it."""
        has_features = run.data().get("features_fingerprint") is None
        dataset = run.dataset() if has_features else None
        graph = dataset.graph if dataset else run.edges()
        source, target = graph.edge_index.numpy()
        links = sp.csr_array((np.ones(len(source), np.int8), (source, target)), shape=(graph.n, graph.n))
        words, names = sp.csr_array((graph.n, 0)), []
        if dataset is not None:
            traits = traits_of(dataset)
            described = traits.traits[traits.numbers.shape[1] :]
            columns = [j for j, trait in enumerate(described) if trait.kind in LISTED_KINDS]
            words, names = sp.csr_array(traits.truths[:, columns]), [described[j].name for j in columns]
        lists = (Lists.rarest_first(matrix, max_entries) for matrix in (links, words))
        n_added = sum(len(addition.ids) for addition in additions(run))
        edges, listed = (each.extended(n_added) for each in lists)
        return cls(edges, listed, names)


def _longest(lengths: np.ndarray, max_entries: int) -> int:
    """The largest length, at most ``MAX_LISTED``, at which cut lists have at most ``max_entries`` entries in total."""
    totals = [int(np.minimum(lengths, longest).sum()) for longest in range(MAX_LISTED + 1)]
    return int(np.searchsorted(totals, max_entries, side="right")) - 1
