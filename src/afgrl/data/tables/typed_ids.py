"""Ids of nodes of several types: distinct ones stay as they are, others are written with their type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import overload

import pyarrow as pa
import pyarrow.compute as pc

from afgrl.data.ingest import first_few
from afgrl.data.tables.edges import EndIds
from afgrl.errors import UserError


@overload
def id_of_type(node_type: str, ids: str) -> str: ...
@overload
def id_of_type(node_type: str, ids: pa.ChunkedArray) -> pa.ChunkedArray: ...
def id_of_type(node_type: str, ids: str | pa.ChunkedArray) -> str | pa.ChunkedArray:
    """``users:7``."""
    start = f"{node_type}:"
    return start + ids if isinstance(ids, str) else pc.binary_join_element_wise(start, ids, "")


def ids_of_types(
    listed: Mapping[str, pa.ChunkedArray | None], ends: Iterable[tuple[tuple[str | None, str | None], EndIds]]
) -> dict[str, pa.Array]:
    """All ids of each type: those of its table and those in columns named after it."""
    parts: dict[str, list[pa.Array]] = {t: list(ids.chunks) for t, ids in listed.items() if ids is not None}
    for types, values in ends:
        for node_type, column in zip(types, values, strict=True):
            if node_type is not None:
                parts.setdefault(node_type, []).extend(column.chunks)
    return {node_type: pa.chunked_array(chunks, pa.string()).unique() for node_type, chunks in parts.items()}


def shared_id(a: pa.Array, b: pa.Array) -> str | None:
    """The first id that both have."""
    shared = a.filter(pc.is_in(a, value_set=b))
    return shared[0].as_py() if len(shared) else None


def resolved_end(
    values: pa.ChunkedArray, node_type: str | None, listed: Mapping[str, pa.ChunkedArray], where: str, typed_ids: bool
) -> pa.ChunkedArray:
    """The ids of one end of the edges as the graph writes them. Without a type, each value must be the id of one type;
    a value such as users:7 is taken as it is."""
    if not typed_ids:
        return values
    if node_type is not None:
        return id_of_type(node_type, values)
    resolved, seen = values, pa.chunked_array([pa.array([False] * len(values))])
    for other, ids in listed.items():
        found = pc.is_in(values, value_set=ids.combine_chunks())
        twice = values.filter(pc.and_(found, seen))
        if len(twice):
            types = [t for t, known in listed.items() if pc.is_in(twice[0], value_set=known.combine_chunks()).as_py()]
            example = id_of_type(types[0], str(twice[0]))
            raise UserError(
                f"The id {str(twice[0])!r} in {where} occurs in several node types, {first_few(types)}; name the "
                f"column after its type, such as {types[0]}_id, or write {example!r}."
            )
        resolved = pc.if_else(found, id_of_type(other, values), resolved)
        seen = pc.or_(seen, found)
    return resolved
