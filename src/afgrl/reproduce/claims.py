"""What the paper claims, each with what was measured here and a verdict that follows from it by rule."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

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
from afgrl.reproduce.result import PROTOCOLS, Records, Result, Scope, seeds_of

RIVALS = ("bgrl", "gca", "grace")
TASKS = (("classification", "accuracy", 2), ("clustering", "nmi", 3), ("similarity", "sim@5", 3))
STABLE = 1.0  # percent: a fall below it over all values of a setting counts as stable
NOTHING = "–"
ONE_SEED = "of one seed, so that nothing is known of its spread,"


class Finding(NamedTuple):
    """A claim in one protocol."""

    claim: str
    verdict: str
    measured: str


def cells(scope: Scope) -> list[Cell]:
    parts = (scores, figure_sensitivity, figure_ablation, figure_dimension, figure_tsne)
    return [cell for part in parts for cell in part.cells(scope)]


def result(scope: Scope, records: Records) -> Result:
    judged = [
        [
            *_against_rivals(scope, records, protocol),
            *_stable(scope, records, protocol),
            *_ablation(scope, records, protocol),
            _dimension(scope, records, protocol),
        ]
        for protocol in PROTOCOLS
    ]
    rows = [
        [free.claim, free.verdict, picked.verdict, free.measured, picked.measured]
        for free, picked in zip(*judged, strict=True)
    ]
    rows += [[own.claim, own.verdict, NOTHING, own.measured, NOTHING] for own in (_neighbors(scope), _plane(scope))]
    titles = ("claim", "label-free", "paper protocol", "measured, label-free", "measured, paper protocol")
    notes = [
        *scope.absent(paper.DATASETS),
        "A difference counts where it is larger than the spread of either side (over seeds, splits or clusterings); "
        "shares of neighbors and silhouettes, which have none, count as they are. A fall below 1 % over all values of "
        "a setting is stable. A claim holds where it does on every dataset, in part where it does on some.",
        scores.SHORT_VECTORS,
    ]
    title = "The paper's claims"
    return Result(title, [Table(title, [Column(name) for name in titles], rows)], notes=notes)


def verdict(held: Sequence[bool]) -> str:
    return "not measured" if not held else "holds" if all(held) else "holds in part" if any(held) else "does not hold"


def _against_rivals(scope: Scope, records: Records, protocol: str) -> list[Finding]:
    findings = []
    for (task, leaf, digits), rival in itertools.product(TASKS, RIVALS):
        found: dict[str, list[str]] = {"better": [], "equal": [], "worse": [], ONE_SEED: []}
        for dataset in scope.at_hand(paper.DATASETS):
            sides = [seeds_of(records, scope, dataset, method) for method in ("afgrl", rival)]
            if all(sides):
                (ours, spread), (theirs, other) = (
                    over_seeds([record[protocol][task][leaf] for record in side]) for side in sides
                )
                gap = ours - theirs
                word = "equal" if abs(gap) <= max(spread, other) else "better" if gap > 0 else "worse"
                word = word if spread or other else ONE_SEED
                found[word].append(f"{dataset} {gap:+.{digits}f}")
        told = "; ".join(f"{word} on {', '.join(which)}" for word, which in found.items() if which)
        held = [word != "worse" for word, which in found.items() for _ in which if word != ONE_SEED]
        claim = f"AFGRL is at least as good as {rival.upper()} in {task}"
        findings.append(Finding(claim, verdict(held), told or NOTHING))
    return findings


def _stable(scope: Scope, records: Records, protocol: str) -> list[Finding]:
    findings = []
    for setting, values in figure_sensitivity.values(scope):
        falls = {}
        for dataset in scope.at_hand(paper.DATASETS):
            points = curves.curve(scope, records, dataset, "afgrl", setting, values, protocol)
            if len(points) == len(values):
                means = [mean for _, mean, _ in points]
                falls[dataset] = 100 * (max(means) - min(means)) / max(means)
        letter = figure_sensitivity.LETTERS[setting]
        told = ", ".join(f"{dataset} -{fall:.2f} %" for dataset, fall in falls.items())
        judged = verdict([fall < STABLE for fall in falls.values()])
        findings.append(Finding(f"AFGRL's accuracy is stable over {letter}", judged, told or NOTHING))
    return findings


def _ablation(scope: Scope, records: Records, protocol: str) -> list[Finding]:
    on_par, worst = {}, {}
    for dataset in scope.at_hand(paper.DATASETS):
        points = curves.curve(scope, records, dataset, "afgrl", "positives", list(figure_ablation.RULES), protocol)
        found = {rule: (mean, spread) for rule, mean, spread in points}
        if len(found) < len(figure_ablation.RULES):
            continue
        (nearest, spread), (adjacent, other) = found["knn"], found["knn+adj"]
        on_par[f"{dataset} {adjacent - nearest:+.2f}"] = abs(nearest - adjacent) <= max(spread, other)
        clusters, spread = found.pop("clusters")
        others, other = min(found.values())
        worst[f"{dataset} {clusters - others:+.2f}"] = others - clusters > max(spread, other)
    return [
        Finding("k-NN + Adj is on par with k-NN alone", verdict([*on_par.values()]), ", ".join(on_par) or NOTHING),
        Finding(
            "clusters alone are worse than every other rule", verdict([*worst.values()]), ", ".join(worst) or NOTHING
        ),
    ]


def _dimension(scope: Scope, records: Records, protocol: str) -> Finding:
    """Whether the step from a middle width to the largest helps AFGRL, and more than it helps any of the others."""
    held, told = [], []
    for dataset in scope.at_hand(paper.DATASETS):
        gains, spread = {}, 0.0
        for method in figure_dimension.chosen(scope):
            widths = figure_dimension.widths(scope)
            points = curves.curve(scope, records, dataset, method, "n_components", widths, protocol)
            if len(points) == len(widths) > 1:
                last, middle = points[-1], points[(len(points) - 1) // 2]
                gains[method] = last[1] - middle[1]
                spread = max(last[2], middle[2]) if method == "afgrl" else spread
        if "afgrl" in gains and len(gains) == len(figure_dimension.chosen(scope)) > 1:
            held.append(gains["afgrl"] > max(spread, *(gain for method, gain in gains.items() if method != "afgrl")))
            told.append(f"{dataset} " + ", ".join(f"{method} {gain:+.2f}" for method, gain in gains.items()))
    return Finding("AFGRL gains from a larger D where others saturate", verdict(held), "; ".join(told) or NOTHING)


def _neighbors(scope: Scope) -> Finding:
    held, told = [], []
    for dataset in scope.at_hand(paper.DATASETS):
        shares = figure_ratio.ratios(loaded(dataset, scope.data_dir))
        (near, _, both), (last_near, _, last_both) = shares[0], shares[-1]
        held.append(near - last_near > both - last_both)
        told.append(
            f"{dataset} nearest {near:.3f} to {last_near:.3f}, nearest and adjacent {both:.3f} to {last_both:.3f}"
        )
    sizes = f"k = {figure_ratio.SIZES[0]} to {figure_ratio.SIZES[-1]}"
    claim = "neighbors that are near and adjacent keep their label as k grows, near ones less"
    return Finding(claim, verdict(held), f"{sizes}: {'; '.join(told)}" if told else NOTHING)


def _plane(scope: Scope) -> Finding:
    found = figure_tsne.separations(scope)
    told = ", ".join(f"{method} {all_nodes:.3f}" for method, (all_nodes, _) in found.items())
    held = [found["afgrl"][0] > found["gca"][0]] if len(found) == 2 else []
    return Finding("AFGRL's classes stand further apart than GCA's (silhouette)", verdict(held), told or NOTHING)
