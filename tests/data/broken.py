"""More than forty kinds of broken input, and the message for each.

python -m tests.data.broken      # writes docs/broken-input.md
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
from afgrl.data.tables.options import ReadOptions

NODES = "id,age,city\na,30,Rome\nb,41,Oslo\nc,25,Rome\n"
EDGES = "source,target\na,b\nb,c\n"
DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "broken-input.md"
HEAD = """# Broken input

Every known kind of broken input, and what happens: an error of one sentence, or a fix that `afgrl check` and
`afgrl fit` report. Nothing is written before the input has been read, so no incomplete run folder is left behind.
`python -m tests.data.broken` generates this page, and a test compares it with the current messages.

| problem | message | result |
|---|---|---|
"""


@dataclass(frozen=True)
class Broken:
    problem: str
    files: dict[str, str | bytes | Callable[[Path], None]] = field(default_factory=dict)
    source: str = ""  # a file in the folder; by default the folder itself
    options: ReadOptions = field(default_factory=ReadOptions)
    message: str = ""  # a part of the message that reports the fix; if empty, an error is expected


def tables(nodes: str | bytes | None = NODES, edges: str | bytes | None = EDGES) -> dict:
    given = {"nodes.csv": nodes, "edges.csv": edges}
    return {name: text for name, text in given.items() if text is not None}


def large_gzip(path: Path) -> None:
    with gzip.open(path, "wb") as file:
        file.write(b"<graphml>" + b" " * 3_000_000)


def large_archive(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("adj_data.npy", b"\0" * 3_000_000)


def truncated_parquet(path: Path) -> None:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"source": ["a"] * 100, "target": ["b"] * 100}), buffer)
    path.write_bytes(buffer.getvalue()[:-40])


def pickled_code(path: Path) -> None:
    torch.save({"edge_index": Path}, path)


def truncated_npz(path: Path) -> None:
    np.savez(path, adj_data=np.ones(3))
    path.write_bytes(path.read_bytes()[:60])


def million_columns(path: Path) -> None:
    path.write_text("id," + ",".join(f"c{i}" for i in range(1_000_000)) + "\n")


ENTITY = (
    '<?xml version="1.0"?><!DOCTYPE g [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>'
    '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected"/></graphml>'
)
BROKEN = [
    Broken("a file that does not exist", source="none.csv"),
    Broken("an empty folder"),
    Broken("a folder without tables", {"readme.md": "hello"}),
    Broken("an empty file", tables(edges="")),
    Broken("a header without rows", tables(edges="source,target\n")),
    Broken("a row with too many cells", tables(nodes=NODES + "d,1,Rome,7\n")),
    Broken("a row with too few cells", tables(edges=EDGES + "c\n")),
    Broken("a quote that is not closed", tables(nodes=NODES + '"d,1,Rome\n')),
    Broken("two columns with the same name", tables(nodes="id,age,age\na,1,2\n")),
    Broken("an encoding other than UTF-8", tables(nodes=NODES.replace("Oslo", "Malmö").encode("latin-1"))),
    Broken("an unknown encoding", tables(), options=ReadOptions(encoding="latin-99")),
    Broken("a binary file named .csv", tables(edges=b"\x00\x01\x02" * 50)),
    Broken("a million columns", {"nodes.csv": million_columns, "edges.csv": EDGES}),
    Broken("an edge table with one column", tables(edges="source\na\nb\n")),
    Broken("no column with unique ids", tables(nodes="age,city\n1,Rome\n1,Rome\n2,Oslo\n2,Oslo\n")),
    Broken("an id column that does not exist", tables(), options=ReadOptions(id="key")),
    Broken("a label column that does not exist", tables(), options=ReadOptions(label="kind")),
    Broken("a label column without values", tables(nodes="id,age,label\na,1,\nb,2,\nc,3,\n"), message="No node has"),
    Broken("a given label column without values", tables(nodes="id,age,kind\na,1,\nb,2,\nc,3,\n"),
           options=ReadOptions(label="kind")),
    Broken("the same column as source and target", tables(), options=ReadOptions(source="target")),
    Broken("an unknown column type", tables(), options=ReadOptions(columns=("age=numbers",))),
    Broken("a column of words given as numbers", tables(), options=ReadOptions(columns=("city=number",))),
    Broken("a row without an id", tables(nodes=NODES + ",50,Rome\n")),
    Broken("two different rows with the same id", tables(nodes=NODES + "a,99,Oslo\n")),
    Broken("ids of edges that are not in the node table", tables(edges="source,target\nA1,B1\n")),
    Broken("a node table without edges", tables(edges=None)),
    Broken("more neighbors than nodes", tables(edges=None), options=ReadOptions(knn_graph=9)),
    Broken("--knn-graph for a source with edges", tables(), options=ReadOptions(knn_graph=2)),
    Broken("several edge tables", {"edges.csv": EDGES, "edges2.csv": EDGES, "nodes.csv": NODES}),
    Broken("an unsupported file format", {"graph.doc": b"PK"}, "graph.doc"),
    Broken("an Excel file", {"graph.xlsx": b"PK"}, "graph.xlsx"),
    Broken("a comment below column names", tables(edges=EDGES + "# the end\n")),
    Broken("a folder whose tables have other names", {"a.csv": NODES, "b.csv": "x,y,z\n1,2,3\n"}),
    Broken("edges whose columns have other names", {"sales.csv": "customer,product,kind\na,x,1\nb,y,2\n"}, "sales.csv"),
    Broken("a truncated Parquet file", {"edges.parquet": truncated_parquet}, "edges.parquet"),
    Broken("a truncated .npz file", {"graph.npz": truncated_npz}, "graph.npz"),
    Broken("an .npz file that unpacks to gigabytes", {"graph.npz": large_archive}, "graph.npz"),
    Broken("a GraphML file that unpacks to gigabytes", {"graph.graphml.gz": large_gzip}, "graph.graphml.gz"),
    Broken("GraphML with entities that expand endlessly", {"graph.graphml": ENTITY}, "graph.graphml"),
    Broken("truncated GraphML", {"graph.graphml": "<graphml><graph>"}, "graph.graphml"),
    Broken("a .gz file that is not compressed", {"edges.csv.gz": b"not packed"}, "edges.csv.gz"),
    Broken("a .pt file that contains code", {"graph.pt": pickled_code}, "graph.pt"),
    Broken(
        "a .pt file with an edge to a node that does not exist",
        {"graph.pt": lambda path: torch.save({"edge_index": torch.tensor([[0], [9]]), "x": torch.ones(3, 2)}, path)},
        "graph.pt",
    ),
    Broken(
        "an adjacency matrix that is not square",
        {"graph.npz": lambda path: sp.save_npz(path, sp.csr_array(np.ones((2, 3))))},
        "graph.npz",
    ),
    Broken(
        "features for a different number of nodes",
        {"nodes.csv": NODES, "edges.csv": EDGES, "features.npy": lambda path: np.save(path, np.ones((5, 2)))},
    ),
    Broken(
        "features that are objects",
        {"edges.csv": EDGES, "features.npy": lambda path: np.save(path, np.array([{}, 1], dtype=object))},
    ),
    Broken("an edge with a missing end", tables(edges=EDGES + "c,\n"), message="missing end"),
    Broken("a self-loop", tables(edges=EDGES + "c,c\n"), message="Self-loops"),
    Broken("comments that look like edges", {"edges.csv": "a,b\n#c,b\nb,d\n"}, message="read as comments"),
    Broken("an empty table among several", {
        "users.csv": "user_id,age\n1,3\n2,4\n", "items.csv": "item_id,price\n7,1\n8,2\n", "more_items.csv": "",
        "ratings.csv": "user_id,item_id\n1,7\n2,8\n"}, message="without rows"),
    Broken("a repeated edge", tables(edges=EDGES + "a,b\n"), message="Repeated edges"),
    Broken("a repeated row of the node table", tables(nodes=NODES + "a,30,Rome\n"), message="Repeated rows"),
    Broken("edges in one direction only", tables(), message="one direction"),
    Broken("weights that are 0, negative or not numbers", tables(edges="source,target,weight\na,b,1\nb,c,-2\na,c,x\n"),
           message="not a number above 0"),
    Broken("no weight above 0", tables(edges="source,target,weight\na,b,light\nb,c,0\n")),
    Broken("an unnamed column with a pandas index",
           tables(",id,age\n0,a,30\n1,b,41\n2,c,25\n", ",source,target\n0,a,b\n1,b,c\n"), message="without a name"),
    Broken("ids that lost their leading zeros", tables("id,age\n007,30\n008,41\n9,2\n", "source,target\n7,8\n9,7\n"),
           message="leading zeros"),
    Broken("a label column whose values all differ",
           tables("id,age,label\n" + "".join(f"n{i},{i % 7},w{i}\n" for i in range(40)), "source,target\nn1,n2\n"),
           message="not used as label"),
    Broken("ids that are only in the edge table", tables(edges=EDGES + "c,zed\n"), message="without a row in"),
    Broken("ids written as decimals", tables("id,age\n1,5\n2,6\n3,4\n", "source,target\n1.0,2.0\n2.0,3.0\n"),
           message="decimals"),
    Broken("a word among numbers", tables("id,age\n" + "".join(f"n{i},{i}\n" for i in range(40)) + "n40,old\n",
                                          "source,target\nn1,n2\n"), message="not numbers"),
    Broken("an empty column", tables(nodes="id,age,note\na,1,\nb,2,\nc,3,\n"), message="is empty"),
    Broken("a column of names", tables(nodes="id,age,mail\n" + "".join(
        f"n{i},{i},m{i}@x.org\n" for i in range(80)), edges="source,target\nn1,n2\n"), message="look like names"),
    Broken("no features", {"edges.csv": EDGES}, message="structural features"),
    Broken("spaces around ids", tables(edges="source,target\n a ,b\nb, c \n"), message="one direction"),
    Broken("formulas in cells", tables(nodes='id,age,city\na,1,"=cmd|A1"\nb,2,Rome\nc,3,Rome\n'), message="categories"),
]  # fmt: skip


def outcome(case: Broken, folder: Path) -> tuple[bool, str]:
    """Whether the input was accepted, and the message."""
    for name, content in case.files.items():
        if callable(content):
            content(folder / name)
        else:
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with mock.patch("afgrl.data.unpacking.MAX_UNPACKED_BYTES", 1 << 20):
        try:
            dataset = load(str(folder / case.source), options=case.options)
        except UserError as error:
            return False, str(error).replace(str(folder), "FOLDER").replace("1 MiB", "8 GiB")
    texts = [message.text for message in dataset.ingested.report.messages]
    return True, next((text for text in texts if case.message and case.message in text), "")


def document() -> str:
    rows = []
    for case in BROKEN:
        with tempfile.TemporaryDirectory() as name:
            accepted, text = outcome(case, Path(name))
        rows.append(f"| {case.problem} | {text.replace('|', chr(92) + '|')} | {'continues' if accepted else 'stops'} |")
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(document())
