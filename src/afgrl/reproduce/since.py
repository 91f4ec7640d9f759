"""Methods that are not in the paper, most of them published since, beside the default; last-epoch scores only."""

from __future__ import annotations

import statistics

from afgrl import DEFAULT_METHOD
from afgrl.experiment.cache import Record
from afgrl.methods import method_class
from afgrl.reproduce import overview, paper, scores
from afgrl.reproduce.layout import Column, Entry, Table, over_seeds
from afgrl.reproduce.result import Records, Result, seeds_of
from afgrl.reproduce.scope import Scope
from afgrl.runs.spec import RunSpec, short_name

DATASETS = (*paper.DATASETS, "cora", "citeseer", "pubmed")
Found = dict[tuple[str, str, str], list[Record]]  # (method, recipe, dataset) → one record per seed

NEW_NODES = "accuracy on new nodes, %"  # also the name in a record
NOTES = (
    "last-epoch: no label is used to choose the epoch. Without a word after the method: its published settings for "
    "the dataset, or the median of those where it has none. `default`: one setting for all graphs.",
    "The mean rank covers the datasets on which all rows of the table were measured.",
    "New nodes: a tenth of the nodes, drawn once, which the training did not see; they are embedded afterwards and "
    "classified by a classifier of other nodes.",
)


def specs(scope: Scope) -> list[RunSpec]:
    return [
        scope.spec(dataset, method, seed, recipe)
        for dataset in sources(scope)
        for method, recipe in rows(scope)
        for seed in range(scope.seeds)
    ]


def new_node_specs(scope: Scope) -> list[RunSpec]:
    """The runs whose accuracy on new nodes is measured: one setting for all graphs, one seed."""
    return [
        scope.spec(dataset, method, 0, recipe)
        for dataset in sources(scope)
        for method, recipe in rows(scope)
        if recipe == "default" and method_class(method).inductive
    ]


def sources(scope: Scope) -> list[str]:
    """The known datasets in scope, and files and folders with labels."""
    return [*scope.available(DATASETS), *scope.own_sources]


def rows(scope: Scope) -> list[tuple[str, str]]:
    """Each method with its published settings and with its default, and the default embedding."""
    since = [(method, recipe) for method in paper.SINCE for recipe in ("paper", "default") if method in scope.methods]
    return [*([(DEFAULT_METHOD, "default")] if DEFAULT_METHOD in scope.methods else []), *since]


def result(scope: Scope, records: Records) -> Result:
    found: Found = {
        (method, recipe, dataset): own
        for dataset in sources(scope)
        for method, recipe in rows(scope)
        if (own := seeds_of(records, scope, dataset, method, recipe=recipe))
    }
    tables = [_table(found, scope, score) for score, _ in overview.SCORES] if found else []
    tables += [_new_node_table(records, scope)] if any(NEW_NODES in record for record in records.values()) else []
    tables += [_cost_table(found)] if found else []
    return Result("Since the paper", tables, notes=[*scope.missing_notes(DATASETS), *NOTES])


def _table(found: Found, scope: Scope, score: scores.Metric) -> Table:
    datasets = [dataset for dataset in sources(scope) if any(key[2] == dataset for key in found)]
    measured = [pair for pair in rows(scope) if any(key[:2] == pair for key in found)]

    def mean(pair: tuple[str, str], dataset: str) -> float | None:
        own = found.get((*pair, dataset))
        return over_seeds([record["last-epoch"][score.task][score.name] for record in own])[0] if own else None

    values = {pair: [mean(pair, dataset) for dataset in datasets] for pair in measured}
    ranked = mean_ranks(values)
    table_rows: list[list[Entry]] = [
        [scores.row_name(*pair), *own, ranked.get(pair)] for pair, own in values.items()
    ]  # fmt: skip
    own_columns = (Column(short_name(dataset), score.digits) for dataset in datasets)
    columns = [Column("method"), *own_columns, Column("mean rank", 2)]
    return Table(score.title, columns, table_rows)


def mean_ranks(values: dict[tuple[str, str], list[float | None]]) -> dict[tuple[str, str], float]:
    """The mean rank of each row, 1 for the highest value, over the columns without gaps; nothing if all have gaps."""
    ranks: dict[tuple[str, str], list[float]] = {pair: [] for pair in values}
    for column in zip(*values.values(), strict=True):
        complete = [value for value in column if value is not None]
        if len(complete) < len(column):
            continue
        for pair, value in zip(values, complete, strict=True):
            higher, equal = sum(other > value for other in complete), complete.count(value)
            ranks[pair].append(higher + (equal + 1) / 2)
    return {pair: statistics.mean(own) for pair, own in ranks.items() if own}


def _new_node_table(records: Records, scope: Scope) -> Table:
    values: dict[str, dict[str, Entry]] = {}
    for spec in new_node_specs(scope):
        own = values.setdefault(scores.row_name(spec.method, spec.recipe), {})
        own[spec.source] = records.get(spec, {}).get(NEW_NODES)
    datasets = sources(scope)
    columns = [Column("method"), *(Column(short_name(dataset), 2) for dataset in datasets)]
    return Table(NEW_NODES, columns, [[name, *(own[dataset] for dataset in datasets)] for name, own in values.items()])


def _cost_table(found: Found) -> Table:
    table_rows: list[list[Entry]] = []
    for (method, recipe, dataset), own in found.items():
        peaks = [record["peak_bytes"] / 2**30 for record in own if record.get("peak_bytes")]
        seconds = statistics.mean(record["seconds"] for record in own)
        peak = max(peaks) if peaks else None
        table_rows.append([short_name(dataset), scores.row_name(method, recipe), seconds, peak])
    columns = [Column("dataset"), Column("method"), Column("s per run", 1), Column("peak GiB", 2)]
    return Table("Training time and peak GPU memory", columns, table_rows)


__all__ = ["new_node_specs", "result", "specs"]
