"""The quality panel as terminal tables."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from afgrl.cli.tables import make_table, make_title, mark_best
from afgrl.evaluate.best import MARK
from afgrl.evaluate.columns import BASELINES, COLUMNS, QUALITY_COLUMNS


def quality(answer: dict[str, Any]) -> list[Table | Text]:
    """The measures of all vectors, their stability, the probe if there are labels, and what decides vectors."""
    parts = [_measures(answer), _stability(answer), _probe(answer), _facts(answer)]
    return [part for part in parts if part is not None]


def _row_title(name: str) -> str:
    return BASELINES.get(name, name)


def _style(name: str) -> str:
    return "dim" if name in BASELINES else "bold"


def _measures(answer: dict[str, Any]) -> Table:
    columns = [column for column in QUALITY_COLUMNS if column.name in answer["vectors"]["trained"]]
    table = make_table("vectors", right=[column.title for column in columns])
    table.title = make_title(f"{answer['dataset']}, {answer['method']}, seed {answer['seed']}")
    for name, measures in answer["vectors"].items():
        cells = [_cell(measures.get(column.name), column.digits) for column in columns]
        table.add_row(_row_title(name), *cells, style=_style(name))
    samples = answer["samples"]
    notes = [f"Modularity and conductance of {answer['clusters']['k']} clusters on the edges."]
    if answer["links"]:
        share, scored, pairs = (answer["links"][name] for name in ("hidden_share", "scored", "pairs"))
        notes.append(
            f"Link AUC: {share:.0%} of the edges hidden before training, {scored:,} of them scored against {pairs:,} "
            "pairs without an edge."
        )
    for title, name in (("rank", "rank_nodes"), ("hubness", "neighbor_nodes")):
        if answer["nodes"] > samples[name]:
            notes.append(f"The {title} is that of {samples[name]:,} random nodes.")
    table.caption = " ".join(notes)
    return table


def _cell(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _stability(answer: dict[str, Any]) -> Table | None:
    stability = answer["stability"]
    if stability is None:
        return None
    kinds = {"edges": f"{stability['kept_share']:.0%} of edges", "seeds": "other seed"}
    measures = {"neighbors": "common neighbors", "clusters": "ARI of clusters"}
    table = make_table("stability", "vectors", right=measures.values())
    for kind, title in kinds.items():
        for name, found in stability[kind].items():
            means = [sum(found[measure]) / len(found[measure]) for measure in measures]
            table.add_row(title, _row_title(name), *(_cell(mean, 3) for mean in means), style=_style(name))
    table.caption = f"Of the {answer['samples']['neighbors']} nearest neighbors, and of k-means clusters; 1: unchanged."
    return table


def _probe(answer: dict[str, Any]) -> Table | Text | None:
    labels = answer["labels"]
    if labels is None:
        return None
    if "accuracy" not in labels:
        return Text(labels["sentence"])
    table = make_table("vectors", right=["probe accuracy %", "95 % interval"])
    for name, found in labels["accuracy"].items():
        interval = f"{found['low']:.1f} to {found['high']:.1f}"
        table.add_row(_row_title(name), _cell(found["mean"], 1), interval, style=_style(name))
    table.caption = (
        f"Logistic regression, cross-validated on {labels['used']:,} of {labels['labeled']:,} labeled nodes; Wilson's "
        f"interval. {labels['sentence']}"
    )
    return table


def _facts(answer: dict[str, Any]) -> Table:
    table = make_table("vectors decided by", right=["share of nodes"])
    titles = {
        "both": "features and neighbors", "features": "features only", "neighbors": "neighbors only",
        "nothing": "neither: they mean nothing",
    }  # fmt: skip
    for kind, title in titles.items():
        if answer["information"][kind] or kind == "both":
            table.add_row(title, f"{answer['information'][kind]:.1%}")
    training = answer["training"]
    if training:
        late = training["late_drift"]
        second_half = "" if late is None else f", {late:.0%} of it in the second half of training"
        table.caption = f"Drift from the untrained encoder: {training['drift']:.2f} (cosine distance){second_half}."
    return table


def comparison(rows: list[dict[str, Any]]) -> list[Table]:
    """Runs side by side: scores if they have labels, and the measures without labels. If there are several graphs,
    that of each run, too."""
    several_graphs = len({row["dataset"] for row in rows}) > 1
    scores = [(f"{column.task} {column.name}", column.title, column.digits) for column in COLUMNS]
    found = []
    for columns in (scores, QUALITY_COLUMNS):
        known = [column for column in columns if any(column[0] in row for row in rows)]
        if known:
            table = make_table("run", *(["graph"] if several_graphs else []), right=[title for _, title, _ in known])
            cells: Any = [[_cell(row.get(name), digits) for name, _, digits in known] for row in rows]
            if columns is scores and not several_graphs:
                cells, table.caption = mark_best(cells), f"{MARK} best of its column."
            for row, shown in zip(rows, cells, strict=True):
                table.add_row(*(Text(row[name]) for name in ["name", *(["dataset"] if several_graphs else [])]), *shown)
            found.append(table)
    caption = f"Without labels; modularity and conductance of {rows[0]['n_clusters']} clusters on the edges."
    warning = " Compare only runs on the same graph: values depend on it." if several_graphs else ""
    found[-1].caption = caption + warning
    return found
