"""What two nodes can have in common besides the cells of their columns: linked nodes, words, features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from afgrl.analysis.traits import listed_traits
from afgrl.graph import as_text
from afgrl.runs.added import Addition, additions, all_ids
from afgrl.runs.folder import Run

MAX_LISTED = 200  # linked nodes and words of one node


@dataclass(frozen=True, eq=False)
class Lists:
    """A list for each node, cut to a maximal length. The cut ones keep their rarest entries, which say most."""

    starts: np.ndarray  # [n + 1]
    values: np.ndarray  # [starts[-1]]
    full: np.ndarray  # [n] the lengths before the cut

    @classmethod
    def rarest_first(
        cls, matrix: sp.csr_array, max_entries: int | None = None, rows: np.ndarray | None = None
    ) -> Lists:
        """The columns of the entries of each row, or of ``rows``; columns with few entries first. With ``max_entries``,
        lists are cut to the largest length at which all of them together have at most that many entries."""
        frequency = np.bincount(matrix.indices, minlength=matrix.shape[1])
        matrix = matrix if rows is None else matrix[rows]
        lengths = np.diff(matrix.indptr)
        row = np.repeat(np.arange(matrix.shape[0]), lengths)
        order = np.lexsort((matrix.indices, frequency[matrix.indices], row))
        rank = np.arange(len(row)) - np.repeat(matrix.indptr[:-1], lengths)
        longest = MAX_LISTED if max_entries is None else _longest(lengths, max_entries)
        kept = np.minimum(lengths, longest)
        starts = np.concatenate([[0], np.cumsum(kept)])
        return cls(starts, matrix.indices[order][rank < longest].astype(np.int32), lengths.astype(np.int32))

    def only(self, known: np.ndarray) -> Lists:
        """The lists with the positions of their values in ``known``, without values that are not in it."""
        order = np.argsort(known, kind="stable")
        at = np.minimum(np.searchsorted(known, self.values, sorter=order), len(known) - 1)
        present = known[order[at]] == self.values
        starts = np.concatenate([[0], np.cumsum(present)])[self.starts]
        return Lists(starts, order[at][present].astype(np.int32), self.full)


@dataclass(frozen=True, eq=False)
class ListsOnDemand:
    """The same lists, each made when it is asked for: to sort the entries of all nodes takes several times their
    memory."""

    matrix: sp.csr_array  # [n, c]
    frequency: np.ndarray  # [c] entries of each column

    @classmethod
    def of_matrix(cls, matrix: sp.csr_array) -> ListsOnDemand:
        return cls(matrix, np.bincount(matrix.indices, minlength=matrix.shape[1]))

    def of(self, row: int) -> list[int]:
        columns = self.matrix.indices[slice(*self.matrix.indptr[row : row + 2])]
        listed: list[int] = columns[np.lexsort((columns, self.frequency[columns]))][:MAX_LISTED].tolist()
        return listed

    def length(self, row: int) -> int:
        """Of the list before it was cut."""
        return int(self.matrix.indptr[row + 1] - self.matrix.indptr[row])


class LinksAndWords(NamedTuple):
    links: sp.csr_array  # [n, n] with an entry for each direction of an edge
    words: sp.csr_array  # [n, c] with an entry where a node has a word
    names: list[str]  # [c] the words


def links_and_words(run: Run) -> LinksAndWords:
    """Of all nodes: those that were added after training come after the others, as everywhere. A run whose features are
    outside of it has no words, and its edges stay in their file."""
    has_features = run.data().get("features_fingerprint") is None
    dataset = run.dataset() if has_features else None
    graph = dataset.graph if dataset else run.mapped_edges()
    edges, n, added = graph.edge_index.numpy(), graph.n, additions(run)
    words, names = listed_traits(dataset) if dataset is not None else (sp.csr_array((n, 0)), [])
    if not added:
        starts = np.searchsorted(edges[0], np.arange(n + 1, dtype=edges.dtype))  # they are sorted
        links = sp.csr_array((np.ones(edges.shape[1], np.int8), edges[1], starts), shape=(n, n))
        return LinksAndWords(links, words, names)
    edges = np.concatenate([edges, _added_edges(run, added, n)], axis=1)
    words, names = _with_added_words(words, names, added)
    n += sum(len(addition.ids) for addition in added)
    links = sp.csr_array((np.ones(edges.shape[1], np.int8), tuple(edges)), shape=(n, n))
    return LinksAndWords(links, words, names)


@dataclass(frozen=True, eq=False)
class PageFacts:
    """For each node of a page the nodes it is linked to, and its words or features as positions in ``names``."""

    edges: Lists
    words: Lists
    names: list[str]

    @classmethod
    def of_run(cls, run: Run, max_entries: int, rows: np.ndarray | None = None) -> PageFacts:
        """With ``rows``, only those nodes have lists, and linked nodes are positions among them; the number of all
        linked nodes stays."""
        links, words, names = links_and_words(run)
        if rows is None:
            return cls(Lists.rarest_first(links, max_entries), Lists.rarest_first(words, max_entries), names)
        linked = Lists.rarest_first(links, rows=rows).only(rows)
        return cls(linked, Lists.rarest_first(words, max_entries, rows), names)


@dataclass(frozen=True, eq=False)
class NodeFacts:
    """The same of any node that is asked for."""

    edges: ListsOnDemand
    words: ListsOnDemand
    names: list[str]

    @classmethod
    def of_run(cls, run: Run) -> NodeFacts:
        links, words, names = links_and_words(run)
        return cls(ListsOnDemand.of_matrix(links), ListsOnDemand.of_matrix(words), names)


def _added_edges(run: Run, added: list[Addition], n_trained: int) -> np.ndarray:
    """[2, e] the edges of added nodes as rows, in both directions, each once, without those to removed nodes."""
    row_of = {node_id: row for row, node_id in enumerate(as_text(all_ids(run)))}
    pairs, start = set[tuple[int, int]](), n_trained
    for addition in added:
        for row, linked in enumerate(addition.linked.to_pylist(), start):
            others = [row_of[node_id] for node_id in linked if node_id in row_of]
            pairs |= {(row, other) for other in others} | {(other, row) for other in others}
        start += len(addition.ids)
    return np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2).T


def _with_added_words(words: sp.csr_array, names: list[str], added: list[Addition]) -> tuple[sp.csr_array, list[str]]:
    """Rows for the added nodes, and columns for words that no other node has."""
    code_of = {name: code for code, name in enumerate(names)}
    lists = [listed for addition in added for listed in addition.words.to_pylist()]
    codes = [code_of.setdefault(name, len(code_of)) for listed in lists for name in listed]
    indptr = np.concatenate([[0], np.cumsum([len(listed) for listed in lists])])
    rows = sp.csr_array((np.ones(len(codes)), codes, indptr), shape=(len(lists), len(code_of)))
    wider = sp.csr_array((words.data, words.indices, words.indptr), shape=(words.shape[0], len(code_of)))
    return sp.csr_array(sp.vstack([wider, rows])), list(code_of)


def _longest(lengths: np.ndarray, max_entries: int) -> int:
    """The largest length, at most ``MAX_LISTED``, at which cut lists have at most ``max_entries`` entries in total."""
    totals = [int(np.minimum(lengths, longest).sum()) for longest in range(MAX_LISTED + 1)]
    return int(np.searchsorted(totals, max_entries, side="right")) - 1
