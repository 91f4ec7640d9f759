"""Graph files: GraphML and GEXF with odd structure, Parquet with every type of column in every role."""

import datetime
import decimal
import gzip
import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.fuzz.corpus import EDGES, GEXF, GRAPHML, NODES, parquet
from tests.fuzz.handmade.case import Handmade, check

DAY = datetime.datetime(2021, 1, 2)
TYPES: dict[str, tuple[list[Any], pa.DataType | None]] = {
    "int8": ([1, 2, 3], pa.int8()),
    "uint64": ([2**64 - 1, 1, 2], pa.uint64()),
    "float16": ([1, 2, 3], pa.float16()),
    "float with nan": ([1.5, float("nan"), 2.0], pa.float64()),
    "bool": ([True, False, True], None),
    "decimal": ([decimal.Decimal("1.5")] * 3, None),
    "huge decimal": ([decimal.Decimal("9" * 70)] * 3, pa.decimal256(76)),
    "date": ([DAY.date()] * 3, pa.date32()),
    "timestamp": ([DAY] * 3, pa.timestamp("ns")),
    "timestamp in a zone": ([DAY] * 3, pa.timestamp("us", "Asia/Tokyo")),
    "timestamp in no zone": ([0, 1, 2], pa.timestamp("us", "Nowhere/Nothing")),
    "far timestamp": ([2**62, 1, 2], pa.timestamp("us")),
    "duration": ([DAY - DAY] * 3, pa.duration("s")),
    "time": ([DAY.time()] * 3, pa.time64("us")),
    "binary": ([b"\xff\0", b"b", b"c"], pa.binary()),
    "binary of fixed size": ([b"ab", b"cd", b"ef"], pa.binary(2)),
    "large text": (["a", "b", "c"], pa.large_string()),
    "list": ([[1], [2, 3], []], None),
    "struct": ([{"a": 1}] * 3, None),
    "map": ([[("a", 1)]] * 3, pa.map_(pa.string(), pa.int64())),
    "null": ([None] * 3, pa.null()),
    "missing": (["a", None, "c"], None),
    "dictionary": (["a", "b", "a"], pa.dictionary(pa.int8(), pa.string())),
}
BASE = {
    "id": ["a", "b", "c"],
    "age": [1, 2, 3],
    "source": ["a", "b", "c"],
    "target": ["b", "c", "a"],
    "weight": [1.5, 2.0, 3.0],
}
NODE = '<node id="a"><data key="d0">3.5</data></node>'
EDGE = '<edge source="b" target="c"/>'
ENTITY = '<!DOCTYPE g [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>'
FILE = '<!DOCTYPE g [<!ENTITY a SYSTEM "file:///etc/passwd">]>'


def cases() -> Iterator[Handmade]:
    for what, text in _graphml().items():
        yield check(f"graphml: {what}", {"graph.graphml": _bytes(text)}, "graph.graphml")
    for what, text in _gexf().items():
        yield check(f"gexf: {what}", {"graph.gexf": _bytes(text)}, "graph.gexf")
    for suffix, text in (("graphml", GRAPHML), ("gexf", GEXF)):
        for what, content in _any_xml(text).items():
            yield check(f"{suffix}: {what}", {f"graph.{suffix}": content}, f"graph.{suffix}")
        packed = gzip.compress(text.encode())
        yield check(f"{suffix}.gz", {f"graph.{suffix}.gz": packed}, f"graph.{suffix}.gz")
        yield check(f"{suffix}.gz cut", {f"graph.{suffix}.gz": packed[:-20]}, f"graph.{suffix}.gz")
    yield from _parquet()


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def _any_xml(text: str) -> dict[str, bytes]:
    start = text.index("?>") + 2
    body = text[start:]
    return {
        "empty": b"",
        "spaces": b"   \n",
        "no XML": b"hello",
        "html": b"<html><body>hello</body></html>",
        "cut": text[: len(text) // 2].encode(),
        "without end": text[:-6].encode(),
        "twice": (text + text).encode(),
        "in utf-16": text.replace("utf-8", "utf-16").encode("utf-16"),
        "in latin-1, not said so": text.replace("a", "ä").encode("latin-1"),
        "a byte order mark": b"\xef\xbb\xbf" + text.encode(),
        "an unknown encoding": text.replace("utf-8", "klingon").encode(),
        "a zero byte": text.replace("3", "\0").encode(),
        "a control character": text.replace("3", "\x07").encode(),
        "entities": (text[:start] + ENTITY + body).encode(),
        "an external entity": (text[:start] + FILE + body).encode(),
        "an entity that is not declared": text.replace("3", "&nothing;").encode(),
        "100,000 levels": ("<g>" * 100_000).encode(),
        "no prolog": body.encode(),
        "a prefix without namespace": body.replace("<node", "<x:node").encode(),
        "another namespace": text.replace("http://", "urn:other:").encode(),
        "without namespace": body.replace("xmlns=", "data-x=").encode(),
        "a value of 1 MB": text.replace("3", "3" * 1_000_000, 1).encode(),
        "a comment": (text + "<!-- end -->").encode(),
        "a processing instruction": (text[:start] + "<?php exit ?>" + body).encode(),
    }


def _graphml() -> dict[str, str]:
    return {
        "no graph": GRAPHML[: GRAPHML.index("<graph ")] + "</graphml>",
        "two graphs": GRAPHML.replace("</graphml>", '<graph edgedefault="directed"/></graphml>'),
        "a graph in a node": GRAPHML.replace('<node id="c"/>', '<node id="c"><graph edgedefault="undirected"/></node>'),
        "hyperedges": GRAPHML.replace(EDGE, '<hyperedge><endpoint node="a"/><endpoint node="b"/></hyperedge>'),
        "ports": GRAPHML.replace(EDGE, '<edge source="b" target="c" sourceport="x" targetport="y"/>'),
        "directed": GRAPHML.replace("undirected", "directed"),
        "no direction": GRAPHML.replace(' edgedefault="undirected"', ""),
        "a node without id": GRAPHML.replace('<node id="c"/>', "<node/>"),
        "a repeated node": GRAPHML.replace(NODE, NODE + NODE),
        "an edge to nowhere": GRAPHML.replace(EDGE, '<edge source="b" target="zz"/>'),
        "an edge without end": GRAPHML.replace(EDGE, '<edge source="b"/>'),
        "a self-loop": GRAPHML.replace(EDGE, '<edge source="b" target="b"/>'),
        "repeated edges": GRAPHML.replace(EDGE, EDGE * 3),
        "no edges": GRAPHML.replace(EDGE, "").replace('<edge source="a" target="b"/>', ""),
        "a key that is not declared": GRAPHML.replace('<data key="d0">', '<data key="d9">'),
        "data without key": GRAPHML.replace('<data key="d0">', "<data>"),
        "a key without type": GRAPHML.replace(' attr.type="double"', ""),
        "a key of unknown type": GRAPHML.replace('"double"', '"quaternion"'),
        "a key without name": GRAPHML.replace(' attr.name="age"', ""),
        "words of type int": GRAPHML.replace('"double"', '"int"').replace("3.5", "three"),
        "nan": GRAPHML.replace("3.5", "NaN"),
        "infinity": GRAPHML.replace("3.5", "INF"),
        "beyond float": GRAPHML.replace("3.5", "1e999"),
        "no number": GRAPHML.replace("3.5", ""),
        "words of type boolean": GRAPHML.replace('"double"', '"boolean"'),
        "5,000 digits": GRAPHML.replace('"double"', '"long"').replace("3.5", "9" * 5000),
        "a default of another type": GRAPHML.replace(
            'attr.type="double"/>', 'attr.type="double"><default>x</default></key>'
        ),
        "empty ids": GRAPHML.replace('"a"', '""'),
        "ids that are spaces": GRAPHML.replace('"a"', '"  "'),
        "elements in data": GRAPHML.replace("3.5", "<b>3</b>"),
    }


def _gexf() -> dict[str, str]:
    edge = '<edge id="0" source="a" target="b" weight="2"/>'
    weights = {
        f"weight {weight!r}": GEXF.replace('weight="2"', f'weight="{weight}"')
        for weight in ("", "x", "nan", "inf", "-1", "0", "1e999")
    }
    return weights | {
        "no graph": GEXF[: GEXF.index("<graph>")] + "</gexf>",
        "no nodes": GEXF[: GEXF.index("<nodes>")] + "</graph></gexf>",
        "a node without id": GEXF.replace('<node id="b" label="B"/>', "<node/>"),
        "a repeated node": GEXF.replace('id="b"', 'id="a"'),
        "an edge to nowhere": GEXF.replace('target="b"', 'target="zz"'),
        "an edge without end": GEXF.replace('target="b"', ""),
        "a self-loop": GEXF.replace('target="b"', 'target="a"'),
        "repeated edges": GEXF.replace(edge, edge * 3),
        "no edges": GEXF.replace(edge, ""),
        "an attribute that is not declared": GEXF.replace('for="0"', 'for="9"'),
        "an attribute of unknown type": GEXF.replace('"float"', '"quaternion"'),
        "words of type float": GEXF.replace('value="3"', 'value="three"'),
        "a value is missing": GEXF.replace('value="3"', ""),
        "lists": GEXF.replace('"float"', '"liststring"'),
        "version 9": GEXF.replace('version="1.2"', 'version="9.9"'),
        "dynamic": GEXF.replace("<graph>", '<graph mode="dynamic" timeformat="date">').replace(
            "<edge ", '<edge start="x" end="y" '
        ),
        "a node in a node": GEXF.replace('label="B"/>', 'label="B"><nodes><node id="c"/></nodes></node>'),
        "a parent that does not exist": GEXF.replace('label="B"', 'pid="zz"'),
        "an unknown edge type": GEXF.replace("weight=", 'type="bent" weight='),
        "5,000 digits": GEXF.replace('"float"', '"long"').replace('value="3"', f'value="{"9" * 5000}"'),
    }


def _parquet() -> Iterator[Handmade]:
    for what, (values, kind) in TYPES.items():
        for role in BASE:
            columns = BASE | {role: pa.array(values, kind)}
            files = {
                "nodes.parquet": _table(columns, "id", "age"),
                "edges.parquet": _table(columns, "source", "target", "weight"),
            }
            yield check(f"parquet {role} of type {what}", files)
    whole = parquet(NODES)
    contents = {
        "empty": b"",
        "of 4 bytes": b"PAR1",
        "encrypted": b"PARE" + whole[4:-4] + b"PARE",
        "cut": whole[:-40],
        "without start": whole[40:],
        "with a footer of 4 GiB": whole[:-8] + b"\xff\xff\xff\xff" + whole[-4:],
        "with zeros inside": whole[:30] + bytes(60) + whole[90:],
        "without rows": _table({"id": pa.array([], pa.string())}, "id"),
        "without columns": _table({}),
        "that is a CSV file": NODES.encode(),
        "with a damaged footer": whole[:-30] + bytes(10) + whole[-20:],
        "twice": whole + whole,
        "with a dictionary of one long text": _dense(_long_text(5000)),
        "with one long text in lists": _dense(
            pa.ListArray.from_arrays(pa.array([0, 0, 5000], pa.int32()), _long_text(5000))
        ),
        "with repeated names": _written(pa.table([pa.array(["n0"]), pa.array([1])], names=["id", "id"])),
        "with an empty name": _written(pa.table([pa.array(["n0"]), pa.array([1])], names=["id", ""])),
    }
    for what, content in contents.items():
        yield check(f"parquet {what}", {"nodes.parquet": content, "edges.csv": EDGES.encode()})


def _table(columns: dict[str, Any], *names: str) -> bytes:
    return _written(pa.table({name: columns[name] for name in names}))


def _long_text(n: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0] * n, pa.int32()), pa.array(["x" * (1 << 20)]))


def _dense(texts: pa.Array) -> bytes:
    """A column that takes gigabytes once read."""
    table = pa.table({"id": [f"n{i}" for i in range(len(texts))], "text": texts})
    return _written(table, compression="zstd", store_schema=False)


def _written(table: pa.Table, **options: Any) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **options)
    return buffer.getvalue()
