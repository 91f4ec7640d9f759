"""Candidates for the clustering readout on twelve graphs, chosen leave-one-graph-out.

AFGRL_DATA=DIR python -m benchmarks.readout_rule --seeds 2        # → results/readout-rule.json, readout-rule.md
python -m benchmarks.readout_rule cora citeseer                   # a part of it; graphs already in the file stay there
python -m benchmarks.readout_rule --tables "z, X" raw             # the same for tables: others of the file stay there
python -m benchmarks.readout_rule --table                         # only the table, from the JSON file

A readout is a table (parts beside each other, projected onto their leading directions), and two scalings of it, of
which one is chosen by what its clusters tell about the clusters of neighbors. z are the vectors of the default, h their
trained part, V their svd part, P their PageRank average, X the features, and PPR a wider average. Each table is
clustered in each scaling once; every rule is then a choice among the measured scores. NMI as in the row
"clustering-readout" of `afgrl evaluate`, with fewer fits.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.config import resolve
from afgrl.data import Dataset
from afgrl.evaluate import select_labeled
from afgrl.evaluate.clustering import cluster_scores
from afgrl.evaluate.readout import MAX_DIRECTIONS, MAX_WIDTH, N_STEPS, TELEPORT, neighbor_information
from afgrl.methods.node_embedder import NodeEmbedderMethod
from afgrl.methods.parts.embedder_settings import NodeEmbedderSettings
from afgrl.ops.kmeans import sampled_kmeans
from afgrl.ops.propagation.adjacency import gcn_norm
from afgrl.ops.propagation.columns import pagerank_average
from afgrl.ops.sparse.rows import unit_rows
from afgrl.ops.svd import feature_basis, gram_matrix, leading_eigenvectors
from afgrl.reproduce.layout import Column, Entry, Table, markdown
from afgrl.runs.environment import current_environment
from afgrl.train.device import choose_device
from afgrl.train.loop import training_loop
from afgrl.train.state import initial_state
from benchmarks import RESULTS
from benchmarks.default_rule import GRAPHS
from benchmarks.graphs import dataset

N_FITS, N_RESTARTS = 3, 10
Parts = dict[str, Tensor]  # unit rows [n, d]: z, h, V, X, P, and the wider average of each under "PPR z", …
Json = dict[str, Any]

# Each table with the weights of its parts; a part has its PageRank average beside it.
TABLES: dict[str, dict[str, float]] = {
    "z": {"z": 1, "PPR z": 1},
    "z, 1.2 PPR z": {"z": 1, "PPR z": 1.2},
    "z, .5 X": {"z": 1, "PPR z": 1, "X": 0.5, "PPR X": 0.5},
    "z, .7 X": {"z": 1, "PPR z": 1, "X": 0.7, "PPR X": 0.7},
    "z, .8 X": {"z": 1, "PPR z": 1, "X": 0.8, "PPR X": 0.8},
    "z, X": {"z": 1, "PPR z": 1, "X": 1, "PPR X": 1},
    "z, .7 PPR X": {"z": 1, "PPR z": 1, "PPR X": 0.7},
    "h, X, V": {"h": 1, "PPR h": 1, "X": 1, "PPR X": 1, "V": 1, "PPR V": 1},
}
BASELINES = {"raw": "X", "svd": "V", "ppr": "P"}  # and the part that each is
# Columns of a scaling, for k clusters.
OWN: dict[str, Callable[[int], int]] = {"own, 64": lambda k: 64, "own, 2k": lambda k: max(8, 2 * k)}
EVENED: dict[str, Callable[[int], int]] = {
    "evened, 2k": lambda k: max(8, 2 * k), "evened, 4k": lambda k: max(16, 4 * k),
}  # fmt: skip
TIES = (0.0, 0.005, 0.01, 0.02)
N_OPINIONS = 3  # k-means runs whose information is measured; a rule asks the first or all of them


class Rule(NamedTuple):
    """The evened scaling is chosen unless its information is lower by more than the share ``tie``. The information is
    the mean of ``opinions`` k-means runs. Graphs with dense features have a separate table."""

    table: str
    dense_table: str
    own: str
    evened: str
    tie: float
    opinions: int

    def __str__(self) -> str:
        of = "" if self.opinions == 1 else f", mean of {self.opinions}"
        table = self.table if self.dense_table == self.table else f"{self.table} (dense: {self.dense_table})"
        return f"{table} · {self.own} or {self.evened} · tie {self.tie:g}{of}"

    def score(self, measured: Json, seed: int, *, dense: bool) -> float:
        """The NMI of the scaling that the rule takes, in one run."""
        table = measured[self.dense_table if dense else self.table]
        own, evened = (
            {name: values[seed] for name, values in table[scaling].items()} for scaling in (self.own, self.evened)
        )
        of_own, of_evened = (statistics.mean(each["information"][: self.opinions]) for each in (own, evened))
        chosen = evened if of_evened >= (1 - self.tie) * of_own else own
        return float(chosen["nmi"])


RULES = [
    Rule(table, dense, *others)
    for table in TABLES
    for dense in dict.fromkeys((table, "z"))
    for others in product(OWN, EVENED, TIES, (1, N_OPINIONS))
]
FORMER = Rule("z, .5 X", "z, .5 X", "own, 2k", "evened, 4k", 0.0, 1)
PRESENT = Rule("z, .7 X", "z", "own, 2k", "evened, 4k", 0.01, 1)
DENSE_GRAPHS = ("photo", "computers")


def parts_of(method: NodeEmbedderMethod, inputs: Any, graph_x: Tensor, adjacency: Tensor) -> Parts:
    with torch.no_grad():
        vectors = {
            "z": method.embed(inputs), "h": method.sample(inputs, torch.arange(len(graph_x), device=adjacency.device)),
            "V": inputs.untrained[0], "X": graph_x,
        }  # fmt: skip
    vectors["P"] = pagerank_average(vectors["V"], adjacency)
    parts = {}
    for name, table in vectors.items():
        unit = unit_rows(table)
        if unit.shape[1] > MAX_WIDTH:
            unit = F.normalize(unit @ feature_basis(unit, MAX_WIDTH))
        parts[name] = unit.to_dense()
        parts[f"PPR {name}"] = F.normalize(pagerank_average(parts[name], adjacency, TELEPORT, N_STEPS))
    return parts


def scalings(parts: Parts, weights: dict[str, float], n_clusters: int) -> dict[str, Tensor]:
    table = torch.cat([weight * parts[name] for name, weight in weights.items()], dim=1)
    directions = table @ leading_eigenvectors(gram_matrix([table]), MAX_DIRECTIONS)
    evened = directions / torch.linalg.vector_norm(directions, dim=0).sqrt().clamp(min=1e-6)
    found = {name: directions[:, : width(n_clusters)] for name, width in OWN.items()}
    return found | {name: evened[:, : width(n_clusters)] for name, width in EVENED.items()}


def measured(source: Dataset, seed: int, device: torch.device, names: list[str]) -> Json:
    """{table: {scaling: {"nmi", "information"}}} of one run."""
    assert source.y is not None
    assert source.splits is not None
    rows, y, _ = select_labeled(source.y, source.splits)
    n_classes, graph = int(y.max()) + 1, source.graph.to(device)
    adjacency = gcn_norm(graph)
    state, inputs = initial_state(
        "node_embedder", resolve(NodeEmbedderSettings, {"seed": seed}, graph=graph), graph, device
    )
    training_loop(state, inputs)
    assert isinstance(state.method, NodeEmbedderMethod)
    x = graph.x.to_dense() if device.type == "cuda" else graph.x
    parts = parts_of(state.method, inputs, x, adjacency)

    def scores(readout: Tensor) -> Json:
        generator = torch.Generator(device).manual_seed(0)
        found = cluster_scores(readout[torch.from_numpy(rows)], y, generator, n_fits=N_FITS, n_init=N_RESTARTS)
        unit = F.normalize(readout)
        clusters = [sampled_kmeans(unit, n_classes, torch.Generator(device).manual_seed(k)) for k in range(N_OPINIONS)]
        return {
            "nmi": statistics.mean(found["nmi"]),
            "information": [neighbor_information(each, adjacency) for each in clusters],
        }

    tables = TABLES | {name: {part: 1.0, f"PPR {part}": 1.0} for name, part in BASELINES.items()}
    return {
        name: {scaling: scores(readout) for scaling, readout in scalings(parts, weights, n_classes).items()}
        for name, weights in tables.items()
        if name in names
    }


def merged(runs: list[Json]) -> Json:
    """The same with a list of values, one per run, in each place."""
    return {
        table: {
            scaling: {name: [run[table][scaling][name] for run in runs] for name in values}
            for scaling, values in own.items()
        }
        for table, own in runs[0].items()
    }


def mean_score(rule: Rule, graph: str, own: Json, seeds: int) -> float:
    return statistics.mean(rule.score(own, seed, dense=graph in DENSE_GRAPHS) for seed in range(seeds))


def mean_ranks(nmi: dict[str, dict[Rule, float]], graphs: list[str]) -> dict[Rule, float]:
    ranks: dict[Rule, list[float]] = {rule: [] for rule in RULES}
    for graph in graphs:
        values = nmi[graph]
        for rule in RULES:
            better = sum(other > values[rule] for other in values.values())
            equal = sum(other == values[rule] for other in values.values())
            ranks[rule].append(better + (equal + 1) / 2)
    return {rule: statistics.mean(own) for rule, own in ranks.items()}


def table(answer: Json) -> str:
    measured_on, environment, seeds = answer["measured"], answer["environment"], answer["seeds"]
    nmi = {graph: {rule: mean_score(rule, graph, own, seeds) for rule in RULES} for graph, own in measured_on.items()}
    rows: list[list[Entry]] = []
    for graph, own in measured_on.items():
        ranks = mean_ranks(nmi, [other for other in nmi if other != graph]) if len(nmi) > 1 else {PRESENT: 1.0}
        best = min(ranks, key=lambda rule: ranks[rule])
        baseline = max(
            mean_score(PRESENT._replace(table=name, dense_table=name), graph, own, seeds) for name in BASELINES
        )
        rows.append([graph, baseline, nmi[graph][FORMER], nmi[graph][PRESENT], nmi[graph][best], str(best)])
    titles = ("best baseline", "former", "present", "leave-one-graph-out")
    columns = [Column("graph"), *(Column(name, 4) for name in titles), Column("its rule")]
    first = markdown(Table("NMI of the clustering readout", columns, rows))
    ranks = mean_ranks(nmi, list(nmi))
    best_of_table = {
        name: min((rule for rule in RULES if rule.table == name), key=lambda rule: ranks[rule]) for name in TABLES
    }
    shown = sorted({*best_of_table.values(), FORMER, PRESENT}, key=lambda rule: ranks[rule])
    means: list[list[Entry]] = [
        [str(rule), ranks[rule], statistics.mean(nmi[graph][rule] for graph in nmi)] for rule in shown
    ]
    title = f"The best rule of each table, the former and the present one, of {len(RULES)} rules"
    second = markdown(Table(title, [Column("rule"), Column("mean rank", 1), Column("mean NMI", 4)], means))
    notes = (
        f"Measured on {environment['device']} with torch {environment['versions']['torch']}, commit "
        f"{environment['commit']}, {seeds} seed(s): `{answer['command']}`. The present rule is `{PRESENT}`, the former "
        f"`{FORMER}`. Baselines (raw, svd, ppr) have the present scalings, without a part of X."
    )
    head = "<!-- generated by `python -m benchmarks.readout_rule --table`; do not edit -->"
    return f"{head}\n{notes}\n\n{first}\n\n{second}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", default=list(GRAPHS))
    parser.add_argument("--tables", nargs="+", default=[*TABLES, *BASELINES], choices=[*TABLES, *BASELINES])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=RESULTS / "readout-rule.json")
    parser.add_argument("--table", action="store_true", help="run nothing; write the table from the JSON file")
    given = parser.parse_args()
    if not given.table:
        device = choose_device(given.device)
        answer = json.loads(given.out.read_text()) if given.out.is_file() else {"measured": {}}
        answer["command"] = " ".join(["python -m benchmarks.readout_rule", *sys.argv[1:]])
        answer["seeds"], answer["environment"] = given.seeds, current_environment(device)
        for graph in given.graphs:
            source = dataset(graph)
            runs = [measured(source, seed, device, given.tables) for seed in range(given.seeds)]
            answer["measured"].setdefault(graph, {}).update(merged(runs))
            given.out.write_text(json.dumps(answer) + "\n")  # after each graph: what is done stays
            print(f"{graph} is done", file=sys.stderr, flush=True)
    given.out.with_suffix(".md").write_text(table(json.loads(given.out.read_text())))


if __name__ == "__main__":
    main()
