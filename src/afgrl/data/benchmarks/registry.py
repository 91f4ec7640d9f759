"""The eight benchmark graphs: their raw files and published counts."""

from __future__ import annotations

from dataclasses import dataclass

from afgrl.data.benchmarks.raw import RawFiles

GNN_BENCHMARK = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"
PLANETOID = "https://github.com/kimiyoung/planetoid/raw/master/data"
WIKICS = "https://github.com/pmernyei/wiki-cs-dataset/raw/master/dataset"


@dataclass(frozen=True)
class Counts:
    """The size of a graph, as papers report it."""

    nodes: int
    edges: int  # an undirected edge counts once
    features: int
    classes: int


@dataclass(frozen=True)
class Benchmark:
    title: str
    pyg_class: str
    raw: RawFiles
    counts: Counts
    directed: bool = False  # in the paper


def _npz(folder: str, name: str) -> RawFiles:
    return RawFiles(folder, (name,), GNN_BENCHMARK)


def _planetoid(folder: str) -> RawFiles:
    parts = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
    return RawFiles(folder, tuple(f"ind.{folder.lower()}.{part}" for part in parts), PLANETOID)


BENCHMARKS = {
    "wikics": Benchmark(
        "WikiCS",
        "WikiCS",
        RawFiles("WikiCS", ("data.json",), WIKICS),
        Counts(11701, 216123, 300, 10),  # 520 of the edges are self-loops, which Graph drops
        directed=True,
    ),
    "computers": Benchmark(
        "Amazon Computers",
        "Amazon",
        _npz("Computers", "amazon_electronics_computers.npz"),
        Counts(13752, 245861, 767, 10),
    ),
    "photo": Benchmark(
        "Amazon Photo",
        "Amazon",
        _npz("Photo", "amazon_electronics_photo.npz"),
        Counts(7650, 119081, 745, 8),
    ),
    "cs": Benchmark("Coauthor CS", "Coauthor", _npz("CS", "ms_academic_cs.npz"), Counts(18333, 81894, 6805, 15)),
    "physics": Benchmark(
        "Coauthor Physics", "Coauthor", _npz("Physics", "ms_academic_phy.npz"), Counts(34493, 247962, 8415, 5)
    ),
    "cora": Benchmark("Cora", "Planetoid", _planetoid("Cora"), Counts(2708, 5278, 1433, 7)),
    "citeseer": Benchmark("CiteSeer", "Planetoid", _planetoid("CiteSeer"), Counts(3327, 4552, 3703, 6)),
    "pubmed": Benchmark("PubMed", "Planetoid", _planetoid("PubMed"), Counts(19717, 44324, 500, 3)),
}
