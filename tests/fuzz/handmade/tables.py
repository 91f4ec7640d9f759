"""Text tables: encodings, separators, line ends, headers, cells and columns in every role, gzip, folders of tables."""

import gzip
from collections.abc import Iterator

from tests.fuzz.corpus import EDGES, NODES
from tests.fuzz.handmade.case import Content, Handmade, check

ENCODINGS = (
    "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-7", "latin-1", "cp1252",
    "cp437", "cp037", "shift_jis", "gb18030", "koi8-r", "big5", "euc_kr",
)  # fmt: skip
NO_ENCODINGS = ("rot13", "hex", "zlib", "base64", "bz2", "uu", "quopri", "undefined", "idna", "latin-99", "", "mbcs")
SEPARATORS = (";", "\t", "|", " ", ":", "^", "~", "  ", ",,", ", ", "\x1f", "\x01", "\u00a0")
LINE_ENDS = ("\r\n", "\r", "\n\n", "\n\r", "\v", "\f", "\x85", "\u2028", "\r\r\n", " \n", ",\n", "\0\n")
HEADERS = {
    "none": "n0,1,Rome,2010-01-02,0",
    "numbers": "1,2,3,4,5",
    "repeated": "id,age,age,since,label",
    "repeated id": "id,id,city,since,label",
    "empty names": ",,,,",
    "one empty name": "id,,city,since,label",
    "spaces": " , ,  ,   ,    ",
    "spaces around names": " id , age , city , since , label ",
    "a line break in a name": 'id,"a\nge",city,since,label',
    "an open quote": 'id,"age,city,since,label',
    "too many names": "id,age,city,since,label,more,and more",
    "too few names": "id,age",
    "one name": "id",
    "dunder names": "__class__,__dict__,__len__,__iter__,__id__",
    "other cases": "ID,Id,iD,since,label",
    "emoji": "💥,🔑,🎲,📅,🏷",
    "a byte order mark inside": "id,\ufeffage,city,since,label",
    "names of the edge table": "source,target,weight,since,label",
    "a comment": "# id,age,city,since,label",
    "long": "id,age,city,since," + "x" * 100_000,
    "zero bytes": "id,a\0ge,city,since,label",
    "controls": "id,a\x1b[31mge,city,since,label",
}
CELLS = {
    "empty": "", "a space": " ", "a no-break space": "\u00a0", "an em space and a tab": "\u2003\t",
    "NA": "NA", "nan": "nan", "inf": "inf", "beyond float": "1e999", "negative": "-1",
    "5,000 digits": "9" * 5000, "200,000 letters": "x" * 200_000, "a formula": "=1+1", "an open quote": '"',
    "a zero byte": "\0", "a byte order mark": "\ufeff", "right to left": "\u202ecba", "no such day": "2021-02-30",
    "hexadecimal": "0x10", "underscores": "1_000", "emoji": "💥", "20 digits": "99999999999999999999",
    "a lone surrogate": "\udc80", "a terminal escape": "\x1b[2J",
}  # fmt: skip
ROLES = {"id": ("nodes", 0), "number": ("nodes", 1), "category": ("nodes", 2), "date": ("nodes", 3),
         "label": ("nodes", 4), "source": ("edges", 0), "target": ("edges", 1), "weight": ("edges", 2)}  # fmt: skip
COLUMNS = {
    "empty": lambda i: "", "spaces": lambda i: " " * i, "the same": lambda i: "7", "NA": lambda i: "NA",
    "infinite": lambda i: "-inf", "huge": lambda i: f"1e{300 + i}", "long": lambda i: str(i) * 4000,
    "words": lambda i: f"w{i} of text that differs", "mixed": lambda i: ["1", "a", "", "2021-01-01", "1.5"][i % 5],
    "pairs": lambda i: str(i // 2),
}  # fmt: skip


def tables(nodes: str | bytes | None = NODES, edges: str | bytes | None = EDGES) -> dict[str, Content]:
    given = {"nodes.csv": nodes, "edges.csv": edges}
    return {
        name: text if isinstance(text, bytes) else text.encode(errors="surrogateescape")
        for name, text in given.items()
        if text is not None
    }


def cases() -> Iterator[Handmade]:
    yield from _encodings()
    for separator in SEPARATORS:
        yield check(f"csv nodes separated by {separator!r}", tables(nodes=NODES.replace(",", separator)))
        yield check(f"csv edges separated by {separator!r}", tables(edges=EDGES.replace(",", separator)))
    for end in LINE_ENDS:
        yield check(f"csv nodes with lines ended by {end!r}", tables(nodes=NODES.replace("\n", end)))
        yield check(f"csv edges with lines ended by {end!r}", tables(edges=EDGES.replace("\n", end)))
    _, _, rows = NODES.partition("\n")
    for what, header in HEADERS.items():
        yield check(f"csv header: {what}", tables(nodes=f"{header}\n{rows}"))
    for role, place in ROLES.items():
        for what, cell in CELLS.items():
            yield check(f"csv cell of {role}: {what}", _with_column(*place, {5: cell}))
        for what, value in COLUMNS.items():
            yield check(f"csv column of {role}: {what}", _with_column(*place, {i: value(i) for i in range(12)}))
    yield from _gzip()
    yield from _folders()


def _encodings() -> Iterator[Handmade]:
    text = NODES.replace("Oslo", "Malmö")
    for encoding in ENCODINGS:
        content = text.encode(encoding, errors="replace")
        yield check(f"csv in {encoding}", tables(nodes=content))
        yield check(f"csv in {encoding}, said so", tables(nodes=content), ".", "--encoding", encoding)
        yield check(f"csv in utf-8, said to be {encoding}", tables(nodes=text), ".", "--encoding", encoding)
    for encoding in NO_ENCODINGS:
        yield check(f"csv with --encoding {encoding!r}", tables(), ".", "--encoding", encoding)


def _with_column(table: str, column: int, cells: dict[int, str]) -> dict[str, Content]:
    lines = [line.split(",") for line in (NODES if table == "nodes" else EDGES).splitlines()]
    for row, cell in cells.items():
        lines[row + 1][column] = cell
    changed = "\n".join(",".join(line) for line in lines) + "\n"
    return tables(**{table: changed})


def _gzip() -> Iterator[Handmade]:
    packed = gzip.compress(EDGES.encode(), mtime=0)
    contents = {
        "empty": b"", "one byte": packed[:1], "half": packed[: len(packed) // 2], "without checksum": packed[:-8],
        "wrong checksum": packed[:-8] + bytes(4) + packed[-4:], "wrong length": packed[:-1] + b"\xff",
        "followed by noise": packed + b"noise", "followed by zeros": packed + bytes(64), "twice": packed + packed,
        "packed twice": gzip.compress(packed), "of nothing": gzip.compress(b""), "not packed": EDGES.encode(),
        "another method": packed[:2] + b"\x07" + packed[3:], "all flags": packed[:3] + b"\xff" + packed[4:],
        "zeros inside": packed[:20] + bytes(20) + packed[40:], "of binary": gzip.compress(bytes(range(256)) * 9),
        "of 2 GiB": gzip.compress(b"n0,n1\n" * (1 << 20), mtime=0) * 350,
    }  # fmt: skip
    for what, content in contents.items():
        yield check(f"gzip {what}", {"edges.csv.gz": content}, "edges.csv.gz")


def _folders() -> Iterator[Handmade]:
    """Folders of several tables, and of none."""
    people, cities = "person,age\np1,30\np2,41\np3,25\n", "city,size\nc1,3\nc2,5\n"
    lives = "person,city\np1,c1\np2,c2\np3,c1\n"
    folders = {
        "empty": {},
        "hidden files only": {".edges.csv": EDGES},
        "no tables": {"readme.md": "hello", "picture.png": "\x89PNG"},
        "two edge tables": {"edges.csv": EDGES, "edges2.csv": EDGES},
        "two feature files": {"edges.csv": EDGES, "features.npy": "", "features.npz": ""},
        "two node types": {"people.csv": people, "cities.csv": cities, "lives_in.csv": lives},
        "types without edges": {"people.csv": people, "cities.csv": cities, "more.csv": "a,b\n1,2\n"},
        "types with an empty table": {"people.csv": "", "cities.csv": cities, "lives_in.csv": lives},
        "types with a header only": {"people.csv": "person,age\n", "cities.csv": cities, "lives_in.csv": lives},
        "types with unknown ids": {"people.csv": people, "cities.csv": cities, "lives_in.csv": "person,city\nz,z\n"},
        "types with the same ids": {"people.csv": people, "cities.csv": people, "lives_in.csv": lives},
        "types with a binary table": {"people.csv": "\0\1\2", "cities.csv": cities, "lives_in.csv": lives},
        "types with repeated ids": {"people.csv": people + "p1,9\n", "cities.csv": cities, "lives_in.csv": lives},
        "types with missing ids": {"people.csv": people + ",9\n", "cities.csv": cities, "lives_in.csv": lives},
        "forty tables": {f"table{i}.csv": people for i in range(40)},
        "an edge table of one column": {"edges.csv": "source\nn0\n"},
        "an edge table of self-loops": {"edges.csv": "source,target\n" + "a,a\n" * 9},
        "one node": {"nodes.csv": "id,age\na,1\n", "edges.csv": "source,target\na,a\n"},
        "two nodes": {"nodes.csv": "id,age\na,1\nb,2\n", "edges.csv": "source,target\na,b\n"},
        "edges of nobody": {"nodes.csv": NODES, "edges.csv": "source,target\nx,y\ny,z\n"},
        "a million columns": {"nodes.csv": "id," + ",".join(f"c{i}" for i in range(1_000_000)), "edges.csv": EDGES},
        "12,000 equal headers": {"nodes.csv": "id" + ",x" * 12_000 + "\n" + "a" + ",1" * 12_000, "edges.csv": EDGES},
        "a line of 50 MB": {"nodes.csv": "id,text\na," + "x" * 50_000_000 + "\nb,y\n", "edges.csv": EDGES},
        "2,000 empty lines": {"nodes.csv": NODES + "\n" * 2000, "edges.csv": "\n" * 2000 + EDGES},
        "a ragged table": {"nodes.csv": "id,age\nn1,1\nn2,1,2\nn3,1,2,3\nn4\n", "edges.csv": EDGES},
    }  # fmt: skip
    for what, files in folders.items():
        yield check(f"folder: {what}", {name: text.encode() for name, text in files.items()})
