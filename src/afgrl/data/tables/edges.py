"""An edge table → pairs of node positions, and weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from afgrl.data.ingest import IngestReport, first_few
from afgrl.data.spill import row_blocks
from afgrl.data.tables.cells import is_date_type, is_number_type, is_text_type
from afgrl.data.tables.column_names import NUMBERED, WEIGHT_NAMES, chosen_column, has_no_header, is_unnamed
from afgrl.data.tables.ids import holds_integers, text_of_ids
from afgrl.data.tables.missing import missing_words, without_missing_words
from afgrl.data.tables.numbers import detect_format, to_numbers
from afgrl.data.tables.options import ReadOptions
from afgrl.data.tables.roles import TableNames
from afgrl.errors import UserError
from afgrl.graph.sorted_edges import edge_keys, one_way_edges

INTEGER_AS_DECIMAL = r"^(-?\d+)\.0$"  # how tables write integers in a column with missing values
EndIds = tuple[pa.ChunkedArray, pa.ChunkedArray]  # of each edge: the ids of its source and of its target, as text
SKEWED = 1000.0  # times the median: a few such weights would dominate all others
MANY_UNLISTED = 0.2  # share of nodes without a row in the node table


def read_edges(
    table: pa.Table,
    columns: tuple[str, str],
    node_ids: pa.ChunkedArray | None,
    options: ReadOptions,
    report: IngestReport,
    where: str,
) -> tuple[EndIds, np.ndarray | None]:
    """The ends of each valid edge, and the weights if the table has any: [e] float64."""
    edges = EdgeTable.of(table, columns, node_ids, options, report, where)
    (ends,) = edges.blocks(table.num_rows)
    edges.report_to(report, where)
    return ends, edges.valid_weights()


@dataclass
class EdgeTable:
    """A table of edges that is read in blocks of rows, with what was found so far."""

    table: pa.Table
    columns: tuple[str, str]
    integers: tuple[bool, bool]  # whether the columns hold floats that are integers
    words: list[str]  # for a missing end
    weight_column: str | None
    weight: np.ndarray | None  # [rows] float64, NaN where there is no number
    decimals_are_integers: bool  # 7.0 is the id 7
    incomplete: list[int] = field(default_factory=list)  # rows with a missing end: how many, and the first
    valid: list[np.ndarray] = field(default_factory=list)  # of each block, which rows are edges
    n_decimals: int = 0  # blocks with ids that were written as decimals

    @classmethod
    def of(
        cls, table: pa.Table, columns: tuple[str, str], node_ids: pa.ChunkedArray | None, options: ReadOptions,
        report: IngestReport, where: str,
    ) -> Self:  # fmt: skip
        weight_column = _weight_column(table, options, where)
        weight = None if weight_column is None else _weights(table[weight_column], weight_column, report, where)
        words = _words_that_are_no_ids(node_ids, options)
        integers = (holds_integers(table[columns[0]]), holds_integers(table[columns[1]]))
        decimals = node_ids is not None and not pc.any(pc.ends_with(node_ids, ".0")).as_py()
        return cls(table, columns, integers, words, weight_column, weight, decimals)

    def blocks(self, rows: int | None = None) -> Iterator[EndIds]:
        """The ends of the valid edges of every ``rows`` rows."""
        for part in row_blocks(max(self.table.num_rows, 1), rows):
            block = self.table.slice(part.start, part.stop - part.start)
            ends = [
                without_missing_words(text_of_ids(block[column], integers=integers), self.words)
                for column, integers in zip(self.columns, self.integers, strict=True)
            ]
            complete = ~(ends[0].is_null().to_numpy() | ends[1].is_null().to_numpy())
            if not complete.all():
                first = part.start + int((~complete).argmax()) + 1
                count, first = self.incomplete or (0, first)
                self.incomplete = [count + int((~complete).sum()), first]
            # A comparison with NaN is false too.
            self.valid.append(complete if self.weight is None else complete & (self.weight[part] > 0))
            source, target = (end.filter(pa.array(self.valid[-1])) for end in ends)
            yield self._as_in_node_table(source, target)

    def _as_in_node_table(self, source: pa.ChunkedArray, target: pa.ChunkedArray) -> EndIds:
        """7.0 becomes 7, unless the node table itself has ids that end in .0."""
        if not self.decimals_are_integers or not len(source):
            return source, target
        integers = [pc.replace_substring_regex(end, INTEGER_AS_DECIMAL, r"\1") for end in (source, target)]
        self.n_decimals += not (integers[0].equals(source) and integers[1].equals(target))
        return integers[0], integers[1]

    def report_to(self, report: IngestReport, where: str) -> None:
        """After all blocks were read."""
        if self.incomplete:
            count, first = self.incomplete
            report.fixed(f"Edges of {where} with a missing end, dropped: {count:,}, first in row {first}.")
        used = (*self.columns, self.weight_column)
        ignored = [name for name in self.table.column_names if name not in used and not is_unnamed(name)]
        if ignored:
            report.info(f"Ignored columns of {where}: {first_few(ignored)}.")
        if self.n_decimals:
            report.fixed(f"Ids of {where} written as decimals are read as integers.")

    def valid_weights(self) -> np.ndarray | None:
        """[e] float64, after all blocks were read."""
        return None if self.weight is None else self.weight[np.concatenate(self.valid)]


def _words_that_are_no_ids(node_ids: pa.ChunkedArray | None, options: ReadOptions) -> list[str]:
    """An id of the node table is never missing. Without one, any word may be an id, except those the user added."""
    if node_ids is None:
        return list(options.na_values)
    words = pa.array(missing_words(options), pa.string())
    unlisted = words.filter(pc.invert(pc.is_in(words, value_set=node_ids.combine_chunks())))
    return [str(word) for word in unlisted.to_pylist()]


def _weight_column(table: pa.Table, options: ReadOptions, where: str) -> str | None:
    third = NUMBERED.format(3)  # in a list without a header, the weight follows the two ends
    if not options.weight and has_no_header(table) and third in table.column_names:
        return third
    return chosen_column(table, options.weight, WEIGHT_NAMES, where)


def _weights(column: pa.ChunkedArray, name: str, report: IngestReport, where: str) -> np.ndarray:
    """[rows] float64, NaN where there is no number."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    is_number = is_number_type(kind) and not is_date_type(kind)
    if not (is_text_type(kind) or is_number or pa.types.is_null(kind)):
        raise UserError(
            f"The weights of {where} in column {name!r} have the type {kind} instead of numbers; use --weight none to "
            "ignore them."
        )
    number_format = detect_format(column)[0]
    blocks = (column.slice(rows.start, rows.stop - rows.start) for rows in row_blocks(len(column)))
    weight = np.concatenate([to_numbers(block, number_format) for block in blocks])
    positive = weight[weight > 0]
    if not len(positive):
        raise UserError(
            f"No edge of {where} has a weight above 0 in column {name!r} (its first cell: {column[0].as_py()!r}); "
            "use --weight none to ignore weights."
        )
    if len(positive) < len(weight):
        report.fixed(
            f"Edges of {where} whose weight is not a number above 0, dropped: {len(weight) - len(positive):,}."
        )
    if (positive == positive[0]).all():
        report.info(f"All weights in column {name!r} of {where} are equal, so they only matter for repeated edges.")
        return weight
    report.info(f"Edge weights: column {name!r} of {where}; only their ratios matter.")
    ratio = positive.max() / np.median(positive)
    if ratio > SKEWED:
        report.warning(
            f"The largest weight in column {name!r} of {where} is {ratio:,.0f} times the median; logarithms of the "
            "weights often work better."
        )
    return weight


def number_nodes(
    node_ids: pa.ChunkedArray | None, ends: EndIds | None, report: IngestReport, names: TableNames, *, weighted: bool
) -> tuple[pa.Array, np.ndarray]:
    """All ids, those of the node table first, and the edges as positions among them: [2, e] int64."""
    listed = pa.array([], pa.string()) if node_ids is None else node_ids.combine_chunks()
    if ends is None:
        return listed, np.empty((2, 0), dtype=np.int64)
    in_edges = pa.chunked_array([*ends[0].chunks, *ends[1].chunks], pa.string()).unique()
    unlisted = in_edges.filter(pc.invert(pc.is_in(in_edges, value_set=listed)))
    ids = pa.concat_arrays([listed, unlisted])
    edge_index = np.stack([pc.index_in(end, value_set=ids).to_numpy().astype(np.int64) for end in ends])
    report_nodes_and_edges(ids, len(listed), edge_index, report, names, weighted=weighted)
    return ids, edge_index


def report_nodes_and_edges(
    ids: pa.Array, n_listed: int, edge_index: np.ndarray, report: IngestReport, names: TableNames, *, weighted: bool
) -> None:
    """What the ends of the edges say about both tables."""
    if n_listed and len(ids) > n_listed:
        _report_unlisted(ids.slice(0, n_listed), ids.slice(n_listed), edge_index, report, names)
    _report_edges(edge_index, len(ids), report, names.edges, weighted=weighted)


def _report_unlisted(
    listed: pa.Array, unlisted: pa.Array, edge_index: np.ndarray, report: IngestReport, names: TableNames
) -> None:
    if int(edge_index.min()) >= len(listed):
        raise UserError(
            f"None of the ids in {names.edges}, such as {unlisted[0].as_py()!r}, is in {names.nodes}, which has ids "
            f"such as {listed[0].as_py()!r}; choose other columns with --id, --source-column and --target-column."
        )
    share = len(unlisted) / (len(listed) + len(unlisted))
    text = (
        f"Nodes of {names.edges} without a row in {names.nodes}: {len(unlisted):,} ({share:.0%}), "
        f"first {first_few(unlisted.slice(0, 3).to_pylist())}."
    )
    n_without_zeros = _n_known_without_zeros(unlisted, listed)
    if n_without_zeros:
        text += f" Without leading zeros, {n_without_zeros:,} of them are in {names.nodes}."
    (report.warning if share > MANY_UNLISTED or n_without_zeros else report.fixed)(text)


def _n_known_without_zeros(unlisted: pa.Array, listed: pa.Array) -> int:
    """How many ids would be listed if 007 were 7."""
    bare, known = (pc.replace_substring_regex(ids, "^0+(.+)$", r"\1") for ids in (unlisted, listed))
    return int(pc.sum(pc.is_in(bare, value_set=known)).as_py() or 0)


def _report_edges(edge_index: np.ndarray, n: int, report: IngestReport, where: str, *, weighted: bool) -> None:
    keys = edge_keys(edge_index, n, undirected=False)
    n_edges = len(keys)
    if n_edges < edge_index.shape[1]:
        report.fixed(f"Self-loops of {where}, dropped: {edge_index.shape[1] - n_edges:,}.")
    n_different, n_one_way = one_way_edges(keys, n)
    if n_different < n_edges:
        rule = "their weights added" if weighted else "counted once"
        report.fixed(f"Repeated edges of {where}, {rule}: {n_edges - n_different:,}.")
    if n_one_way:
        report.info(f"Edges of {where} in one direction only, used in both: {n_one_way:,}.")
