"""What the paper claims, each with what was measured here and a verdict that follows from it by rule."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from afgrl.reproduce import (
    curves,
    figure_ablation,
    figure_dimension,
    figure_ratio,
    figure_sensitivity,
    figure_tsne,
    paper,
    scores,
)
from afgrl.reproduce.cells import Cell, loaded
from afgrl.reproduce.layout import Column, Table, over_seeds
from afgrl.reproduce.result import Records, Result, Scope, seeds_of

RIVALS = ("bgrl", "gca", "grace")
TASKS = (("classification", "accuracy"), ("clustering", "nmi"), ("similarity", "sim@5"))
STABLE = 1.0  # percent: a fall below it over all values of a setting counts as stable
Rows = list[list[str]]


def cells(scope: Scope) -> list[Cell]:
    parts = (scores, figure_sensitivity, figure_ablation, figure_dimension, figure_tsne)
    return [cell for part in parts for cell in part.cells(scope)]


def result(scope: Scope, records: Records) -> Result:
    rows: Rows = []
    for protocol in curves.PROTOCOLS:
        rows += _against_rivals(scope, records, protocol)
        rows += _stable(scope, records, protocol)
        rows += _ablation(scope, records, protocol)
        rows += _dimension(scope, records, protocol)
    rows += _neighbours(scope) + _plane(scope)
    columns = [Column(title) for title in ("claim", "protocol", "measured here", "verdict")]
    notes = [
        *scope.absent(paper.DATASETS),
        "A difference counts where it is larger than the spread of either side (over seeds, splits or clusterings). A "
        "claim holds where it does on every dataset, in part where it does on some.",
    ]
    title = "The paper's claims"
    return Result(title, [Table(title, columns, rows)], notes=notes)


def verdict(held: Sequence[bool]) -> str:
    return "not measured" if not held else "holds" if all(held) else "holds in part" if any(held) else "does not hold"


def _against_rivals(scope: Scope, records: Records, protocol: str) -> Rows:
    rows = []
    for (task, leaf), rival in itertools.product(TASKS, RIVALS):
        found: dict[str, list[str]] = {"better": [], "equal": [], "worse": []}
        for dataset in scope.at_hand(paper.DATASETS):
            sides = [seeds_of(records, scope, dataset, method) for method in ("afgrl", rival)]
            if all(sides):
                (ours, spread), (theirs, other) = (
                    over_seeds([record[protocol][task][leaf] for record in side]) for side in sides
                )
                gap = ours - theirs
                found["equal" if abs(gap) <= max(spread, other) else "better" if gap > 0 else "worse"].append(dataset)
        told = "; ".join(f"{word} on {', '.join(which)}" for word, which in found.items() if which)
        held = [word != "worse" for word, which in found.items() for _ in which]
        rows.append([f"AFGRL is at least as good as {rival} in {task}", protocol, told or "–", verdict(held)])
    return rows


def _stable(scope: Scope, records: Records, protocol: str) -> Rows:
    rows = []
    for setting, values in figure_sensitivity.values(scope):
        falls = {}
        for dataset in scope.at_hand(paper.DATASETS):
            points = curves.curve(scope, records, dataset, "afgrl", setting, values, protocol)
            if len(points) > 1:
                means = [mean for _, mean, _ in points]
                falls[dataset] = 100 * (max(means) - min(means)) / max(means)
        letter = figure_sensitivity.LETTERS[setting]
        told = ", ".join(f"{dataset} -{fall:.2f} %" for dataset, fall in falls.items())
        rows.append(
            [
                f"AFGRL's accuracy is stable over {letter}",
                protocol,
                told or "–",
                verdict([fall < STABLE for fall in falls.values()]),
            ]
        )
    return rows


def _ablation(scope: Scope, records: Records, protocol: str) -> Rows:
    on_par, worst, told = [], [], []
    for dataset in scope.at_hand(paper.DATASETS):
        points = curves.curve(scope, records, dataset, "afgrl", "positives", list(figure_ablation.RULES), protocol)
        found = {rule: (mean, spread) for rule, mean, spread in points}
        if len(found) < len(figure_ablation.RULES):
            continue
        (nearest, spread), (adjacent, other) = found["knn"], found["knn+adj"]
        on_par.append(abs(nearest - adjacent) <= max(spread, other))
        worst.append(min(found, key=lambda rule: found[rule][0]) == "clusters")
        told.append(
            f"{dataset} " + ", ".join(f"{figure_ablation.RULES[rule]} {mean:.2f}" for rule, (mean, _) in found.items())
        )
    measured = "; ".join(told) or "–"
    return [
        ["k-NN + Adj is on par with k-NN alone", protocol, measured, verdict(on_par)],
        ["clusters alone are worst", protocol, measured, verdict(worst)],
    ]


def _dimension(scope: Scope, records: Records, protocol: str) -> Rows:
    """Whether the step from a middle width to the largest helps AFGRL, and more than it helps the others."""
    held, told = [], []
    for dataset in scope.at_hand(paper.DATASETS):
        gains = {}
        for method in figure_dimension.chosen(scope):
            points = curves.curve(
                scope, records, dataset, method, "n_components", figure_dimension.widths(scope), protocol
            )
            if len(points) > 1:
                gains[method] = points[-1][1] - points[(len(points) - 1) // 2][1]
        if "afgrl" in gains and len(gains) > 1:
            held.append(gains["afgrl"] > max(0.0, *(gain for method, gain in gains.items() if method != "afgrl")))
            told.append(f"{dataset} " + ", ".join(f"{method} {gain:+.2f}" for method, gain in gains.items()))
    return [["AFGRL gains from a larger D where others saturate", protocol, "; ".join(told) or "–", verdict(held)]]


def _neighbours(scope: Scope) -> Rows:
    held, told = [], []
    for dataset in scope.at_hand(paper.DATASETS):
        shares = figure_ratio.ratios(loaded(dataset, scope.data_dir))
        (near, _, both), (last_near, _, last_both) = shares[0], shares[-1]
        held.append(near - last_near > both - last_both)
        told.append(
            f"{dataset} nearest {near:.3f} to {last_near:.3f}, nearest and adjacent {both:.3f} to {last_both:.3f}"
        )
    sizes = f"k = {figure_ratio.SIZES[0]} to {figure_ratio.SIZES[-1]}"
    claim = "neighbours that are near and adjacent keep their label as k grows, near ones less"
    return [[claim, "–", f"{sizes}: {'; '.join(told)}" if told else "–", verdict(held)]]


def _plane(scope: Scope) -> Rows:
    found = figure_tsne.separations(scope)
    told = ", ".join(f"{method} {all_nodes:.3f}" for method, (all_nodes, _) in found.items())
    held = [found["afgrl"][0] > found["gca"][0]] if len(found) == 2 else []
    return [["AFGRL's classes stand further apart than GCA's (silhouette)", "label-free", told or "–", verdict(held)]]
