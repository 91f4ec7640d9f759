"""Forty and more kinds of broken input, and what each gets.

python -m tests.data.broken      # → docs/broken-input.md, which a test compares with what is said now
"""

import gzip
import io
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
import torch

from afgrl import UserError, load
from afgrl.data.files.options import Options

NODES = "id,age,city\na,30,Rome\nb,41,Oslo\nc,25,Rome\n"
EDGES = "source,target\na,b\nb,c\n"
DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "broken-input.md"
HEAD = """# Broken input

Every kind of broken input that is known, and what it gets: one sentence and nothing else, or a repair that
`afgrl check` and `afgrl fit` report. Nothing is written before the input has been understood, so a run folder is never
half made. `tests/data/broken.py` makes this page, and a test compares it with what is said.

| what is wrong | what is said | |
|---|---|---|
"""


@dataclass(frozen=True)
class Broken:
    what: str
    files: dict[str, str | bytes | Callable[[Path], None]] = field(default_factory=dict)
    source: str = ""  # within the folder; by default the folder itself
    options: Options = field(default_factory=Options)
    about: str = ""  # a part of the note that tells of the repair; without it an error is expected


def tables(nodes: str | bytes | None = NODES, edges: str | bytes | None = EDGES) -> dict:
    given = {"nodes.csv": nodes, "edges.csv": edges}
    return {name: text for name, text in given.items() if text is not None}


def bomb(path: Path) -> None:
    with gzip.open(path, "wb") as file:
        file.write(b"<graphml>" + b" " * 3_000_000)


def swollen(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("adj_data.npy", b"\0" * 3_000_000)


def truncated(path: Path) -> None:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"source": ["a"] * 100, "target": ["b"] * 100}), buffer)
    path.write_bytes(buffer.getvalue()[:-40])


def pickled(path: Path) -> None:
    torch.save({"edge_index": Path}, path)


def half_npz(path: Path) -> None:
    np.savez(path, adj_data=np.ones(3))
    path.write_bytes(path.read_bytes()[:60])


def wide(path: Path) -> None:
    path.write_text("id," + ",".join(f"c{i}" for i in range(1_000_000)) + "\n")


ENTITY = (
    '<?xml version="1.0"?><!DOCTYPE g [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>'
    '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected"/></graphml>'
)
BROKEN = [
    Broken("no such file", source="none.csv"),
    Broken("an empty folder"),
    Broken("a folder with other files only", {"readme.md": "hello"}),
    Broken("an empty file", tables(edges="")),
    Broken("a header without rows", tables(edges="source,target\n")),
    Broken("a row with a cell too many", tables(nodes=NODES + "d,1,Rome,7\n")),
    Broken("a row with a cell too few", tables(edges=EDGES + "c\n")),
    Broken("a quote that is never closed", tables(nodes=NODES + '"d,1,Rome\n')),
    Broken("two columns of one name", tables(nodes="id,age,age\na,1,2\n")),
    Broken("another encoding than UTF-8", tables(nodes=NODES.replace("Oslo", "Malmö").encode("latin-1"))),
    Broken("an encoding that does not exist", tables(), options=Options(encoding="latin-99")),
    Broken("a binary file named .csv", tables(edges=b"\x00\x01\x02" * 50)),
    Broken("a million columns", {"nodes.csv": wide, "edges.csv": EDGES}),
    Broken("one column of edges", tables(edges="source\na\nb\n")),
    Broken("no column that names the nodes", tables(nodes="age,city\n1,Rome\n1,Rome\n2,Oslo\n2,Oslo\n")),
    Broken("a column that is not there", tables(), options=Options(id="key")),
    Broken("a label that is not there", tables(), options=Options(label="kind")),
    Broken("a label without values", tables(nodes="id,age,label\na,1,\nb,2,\nc,3,\n")),
    Broken("one column for both ends", tables(), options=Options(source="target")),
    Broken("a kind that does not exist", tables(), options=Options(columns=("age=numbers",))),
    Broken("words where numbers are demanded", tables(), options=Options(columns=("city=number",))),
    Broken("a row without an id", tables(nodes=NODES + ",50,Rome\n")),
    Broken("two different rows with one id", tables(nodes=NODES + "a,99,Oslo\n")),
    Broken("ids that match nowhere", tables(edges="source,target\nA1,B1\n")),
    Broken("a table of nodes alone", tables(edges=None)),
    Broken("more neighbors than nodes", tables(edges=None), options=Options(knn_graph=9)),
    Broken("edges to be made where there are some", tables(), options=Options(knn_graph=2)),
    Broken("several tables of edges", {"edges.csv": EDGES, "edges2.csv": EDGES, "nodes.csv": NODES}),
    Broken("a file of an unknown kind", {"graph.xlsx": b"PK"}, "graph.xlsx"),
    Broken("a truncated Parquet file", {"edges.parquet": truncated}, "edges.parquet"),
    Broken("a truncated .npz file", {"graph.npz": half_npz}, "graph.npz"),
    Broken("an .npz file that swells to gigabytes", {"graph.npz": swollen}, "graph.npz"),
    Broken("a packed GraphML file that swells to gigabytes", {"graph.graphml.gz": bomb}, "graph.graphml.gz"),
    Broken("GraphML whose entities unpack without end", {"graph.graphml": ENTITY}, "graph.graphml"),
    Broken("truncated GraphML", {"graph.graphml": "<graphml><graph>"}, "graph.graphml"),
    Broken("a .gz file that is none", {"edges.csv.gz": b"not packed"}, "edges.csv.gz"),
    Broken("a .pt file with code in it", {"graph.pt": pickled}, "graph.pt"),
    Broken(
        "a .pt file whose edges leave the graph",
        {"graph.pt": lambda path: torch.save({"edge_index": torch.tensor([[0], [9]]), "x": torch.ones(3, 2)}, path)},
        "graph.pt",
    ),
    Broken(
        "a matrix that is not square",
        {"graph.npz": lambda path: sp.save_npz(path, sp.csr_array(np.ones((2, 3))))},
        "graph.npz",
    ),
    Broken(
        "features for another number of nodes",
        {"nodes.csv": NODES, "edges.csv": EDGES, "features.npy": lambda path: np.save(path, np.ones((5, 2)))},
    ),
    Broken(
        "features that are objects",
        {"edges.csv": EDGES, "features.npy": lambda path: np.save(path, np.array([{}, 1], dtype=object))},
    ),
    Broken("an edge with an end missing", tables(edges=EDGES + "c,\n"), about="lack an end"),
    Broken("edges from a node to itself", tables(edges=EDGES + "c,c\n"), about="to itself"),
    Broken("an edge that is there twice", tables(edges=EDGES + "a,b\n"), about="there before"),
    Broken("a row of nodes that is there twice", tables(nodes=NODES + "a,30,Rome\n"), about="there before"),
    Broken("edges that go one way", tables(), about="one way"),
    Broken("weights that are 0, negative or no numbers", tables(edges="source,target,weight\na,b,1\nb,c,-2\na,c,x\n"),
           about="weight is no number above 0"),
    Broken("no weight that counts", tables(edges="source,target,weight\na,b,light\nb,c,0\n")),
    Broken("an index of pandas without a name",
           tables(",id,age\n0,a,30\n1,b,41\n2,c,25\n", ",source,target\n0,a,b\n1,b,c\n"), about="without a name"),
    Broken("ids that lost their zeros", tables("id,age\n007,30\n008,41\n9,2\n", "source,target\n7,8\n9,7\n"),
           about="zeros in front"),
    Broken("a label whose values all differ",
           tables("id,age,label\n" + "".join(f"n{i},{i % 7},w{i}\n" for i in range(40)), "source,target\nn1,n2\n"),
           about="is no label"),
    Broken("ids that occur only in edges", tables(edges=EDGES + "c,zed\n"), about="occur only in"),
    Broken("ids that became decimals", tables("id,age\n1,5\n2,6\n3,4\n", "source,target\n1.0,2.0\n2.0,3.0\n"),
           about="decimals"),
    Broken("a word among numbers", tables("id,age\n" + "".join(f"n{i},{i}\n" for i in range(40)) + "n40,old\n",
                                          "source,target\nn1,n2\n"), about="no numbers"),
    Broken("an empty column", tables(nodes="id,age,note\na,1,\nb,2,\nc,3,\n"), about="is empty"),
    Broken("names where features are expected", tables(nodes="id,age,mail\n" + "".join(
        f"n{i},{i},m{i}@x.org\n" for i in range(80)), edges="source,target\nn1,n2\n"), about="as names do"),
    Broken("no features at all", {"edges.csv": EDGES}, about="structural ones"),
    Broken("spaces around ids", tables(edges="source,target\n a ,b\nb, c \n"), about="one way"),
    Broken("formulas in cells", tables(nodes='id,age,city\na,1,"=cmd|A1"\nb,2,Rome\nc,3,Rome\n'), about="categories"),
]  # fmt: skip


def outcome(case: Broken, folder: Path) -> tuple[bool, str]:
    """Whether it was repaired, and the sentence."""
    for name, content in case.files.items():
        if callable(content):
            content(folder / name)
        else:
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    small = mock.patch("afgrl.data.files.read.MOST_UNPACKED", 1 << 20)
    also = mock.patch("afgrl.data.files.formats.MOST_UNPACKED", 1 << 20)
    with small, also:
        try:
            dataset = load(str(folder / case.source), options=case.options)
        except UserError as error:
            return False, str(error).replace(str(folder), "FOLDER").replace("1 MiB", "8 GiB")
    notes = [note.text for note in dataset.reading.notes.all]
    return True, next((text for text in notes if case.about and case.about in text), "")


def document() -> str:
    rows = []
    for case in BROKEN:
        with tempfile.TemporaryDirectory() as name:
            repaired, sentence = outcome(case, Path(name))
        rows.append(f"| {case.what} | {sentence.replace('|', chr(92) + '|')} | {'goes on' if repaired else 'stops'} |")
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(document())
