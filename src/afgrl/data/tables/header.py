"""Whether the first row of a table of edges names its columns, or is an edge."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from afgrl.data.spill import row_blocks
from afgrl.data.tables.cells import trimmed_text
from afgrl.data.tables.column_names import ID_NAMES, SOURCE_NAMES, TARGET_NAMES, WEIGHT_NAMES, words_of
from afgrl.data.tables.missing import DEFAULT_WORDS
from afgrl.data.tables.numbers import MIN_SHARE, PATTERNS, detect_format

SAMPLE_ROWS = 10_000
MIN_SORTED = 20  # rows in order that are no coincidence
ENDS_AND_WEIGHTS = {*SOURCE_NAMES, *TARGET_NAMES, *WEIGHT_NAMES, *ID_NAMES}
# Words of which the names of columns of edges consist: next_word, caller, userName.
COLUMN_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        account actor address airport album amount antonym app artist association author begin book buyer callee
        caller category channel child cited city class client coauthor code company component concept count
        country customer date day dependency dependent destination distance document domain dst duration edge
        email employee end entity event film first followee follower following frequency friend from function
        gene group hashtag head host hypernym hyponym id import imported importer influencer ingredient item
        keyword kind label lag language lemma length line link location manager member mention message minute
        module movie name neighbor next node number object organization origin other package page pair paper
        parent partner party patient person phone place player post predicate previous product project protein
        publication query rating receiver recipient reference referrer region related relation relationship
        repository retweeter score second seller sender sense session similarity site size song source speaker
        species src start state station stop strength student subject superior supplier symbol synonym synset
        tag tail target team term text time timestamp title to token topic track transaction type uri url user
        value vertex view visit website weight word year
        """,
    )
)

MEASURES = frozenset(
    re.findall(
        r"\w+",
        """
        count date day distance duration frequency lag length minute number rating score second similarity size
        strength time timestamp value weight year
        """,
    )
)


def is_header(cells: list[str], table: pa.Table) -> bool:
    """Whether ``cells`` name the columns of ``table``, the rows below them.

    They do if they are words above numbers or dates, or if none of them is an end of another row. Names that are ids
    too need more: that they are what columns are called, or that they are out of the order of the rows.
    """
    parsed = _parsed_like_their_columns(cells, table)
    if parsed and not any(parsed):
        return True
    if not _occur_below(cells, table):
        return len(set(cells)) == len(cells)
    if any(parsed):
        return False
    if any(cell.lower() in ENDS_AND_WEIGHTS for cell in cells) or _are_names_of_columns(cells, table):
        return True
    return _is_out_of_order(cells[0], table.column(0))


def _parsed_like_their_columns(cells: list[str], table: pa.Table) -> list[bool]:
    """For each column of numbers or dates, whether the cell above is one; missing values are neither."""
    found = []
    for cell, column in zip(cells, table.columns, strict=True):
        if cell and cell not in DEFAULT_WORDS:
            form, share = detect_format(column.slice(0, SAMPLE_ROWS))
            found += [re.search(PATTERNS[form], cell) is not None] if share >= MIN_SHARE else []
    return found


def _occur_below(cells: list[str], table: pa.Table) -> bool:
    """Whether an end of the first row is one of another row."""
    ends = pa.array(cells[:2], pa.string())
    blocks = (column.slice(rows.start, rows.stop - rows.start) for column in table.columns[:2]
              for rows in row_blocks(len(column)))  # fmt: skip
    return any(bool(pc.any(pc.is_in(trimmed_text(block), value_set=ends)).as_py()) for block in blocks)


def _are_names_of_columns(cells: list[str], table: pa.Table) -> bool:
    """Whether all cells are what columns are called, and most rows below are not."""
    rows = [cells, *zip(*table.slice(0, SAMPLE_ROWS).to_pydict().values(), strict=True)]
    named = [all(_is_name_of_column(cell or "") for cell in row) for row in rows]
    return named[0] and sum(named[1:]) < len(named) / 2


def _is_name_of_column(cell: str) -> bool:
    """Such as next_words; without a name, it is the index of a DataFrame."""
    return all(word in COLUMN_WORDS or word.removesuffix("s") in COLUMN_WORDS for word in words_of(cell))


def is_name_of_ends(name: str) -> bool:
    """Whether a column is called like one end of edges, such as callee or user_id, and not like a measure."""
    return bool(set(words_of(name)) - MEASURES) and _is_name_of_column(name)


def _is_out_of_order(cell: str, column: pa.ChunkedArray) -> bool:
    """Whether the column is sorted, except for the cell above it."""
    rows = trimmed_text(column.slice(0, SAMPLE_ROWS)).drop_null()
    for given, text in ((cell, rows), (cell.lower(), pc.utf8_lower(rows))):
        if len(text) >= MIN_SORTED and pc.all(pc.less_equal(text[:-1], text[1:])).as_py() and given > text[0].as_py():
            return True
    return False
