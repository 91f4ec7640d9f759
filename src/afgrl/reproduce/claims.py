"""The claims of the paper, each with what was measured here and a verdict that follows from it by a fixed rule."""

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
from afgrl.reproduce.layout import Column, Table, over_seeds
from afgrl.reproduce.result import PROTOCOLS, Records, Result, seeds_of
from afgrl.reproduce.scope import Scope
from afgrl.runs.spec import RunSpec

RIVALS = ("bgrl", "gca", "grace")
TASKS = (("classification", "accuracy", 2), ("clustering", "nmi", 3), ("similarity", "sim@5", 3))
STABLE = 1.0  # percent: a smaller loss over all values of a setting counts as stable
NOTHING = "–"
UNDECIDED = "undecided (one seed has no spread)"


class Finding(NamedTuple):
    """A claim under one protocol."""

    claim: str
    verdict: str
    measured: str


def specs(scope: Scope) -> list[RunSpec]:
    parts = (scores, figure_sensitivity, figure_ablation, figure_dimension, figure_tsne)
    return [spec for part in parts for spec in part.specs(scope)]


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
        [last.claim, last.verdict, best.verdict, last.measured, best.measured]
        for last, best in zip(*judged, strict=True)
    ]
    rows += [
        [own.claim, own.verdict, NOTHING, own.measured, NOTHING] for own in (_neighbors(scope), _separation(scope))
    ]
    titles = ("claim", *PROTOCOLS, *(f"measured, {protocol}" for protocol in PROTOCOLS))
    notes = [
        *scope.missing_notes(paper.DATASETS),
        "A difference counts if it is larger than the spread of either side (over seeds, splits or k-means fits). "
        "Shares of neighbors and silhouettes have no spread and count as they are. A setting is stable if accuracy "
        "loses less than 1 % over all its values. A claim holds if it holds on every dataset, and in part if it holds "
        "on some.",
        scores.SHORT_VECTORS,
    ]
    title = "The paper's claims"
    return Result(title, [Table(title, [Column(name) for name in titles], rows)], notes=notes)


def verdict(held: Sequence[bool]) -> str:
    return "not measured" if not held else "holds" if all(held) else "holds in part" if any(held) else "does not hold"


def _against_rivals(scope: Scope, records: Records, protocol: str) -> list[Finding]:
    findings = []
    for (task, score, digits), rival in itertools.product(TASKS, RIVALS):
        found: dict[str, list[str]] = {"better": [], "equal": [], "worse": [], UNDECIDED: []}
        for dataset in scope.available(paper.DATASETS):
            sides = [seeds_of(records, scope, dataset, method) for method in ("afgrl", rival)]
            if all(sides):
                (ours, spread), (theirs, other) = (
                    over_seeds([record[protocol][task][score] for record in side]) for side in sides
                )
                gap = ours - theirs
                word = "equal" if abs(gap) <= max(spread, other) else "better" if gap > 0 else "worse"
                word = word if spread or other else UNDECIDED
                found[word].append(f"{dataset} {gap:+.{digits}f}")
        measured = "; ".join(f"{word} on {', '.join(which)}" for word, which in found.items() if which)
        held = [word != "worse" for word, which in found.items() for _ in which if word != UNDECIDED]
        claim = f"AFGRL is at least as good as {rival.upper()} in {task}"
        findings.append(Finding(claim, verdict(held), measured or NOTHING))
    return findings


def _stable(scope: Scope, records: Records, protocol: str) -> list[Finding]:
    findings = []
    for setting, values in figure_sensitivity.values(scope):
        losses = {}
        for dataset in scope.available(paper.DATASETS):
            points = curves.curve(scope, records, dataset, "afgrl", setting, values, protocol)
            if len(points) == len(values):
                means = [mean for _, mean, _ in points]
                losses[dataset] = 100 * (max(means) - min(means)) / max(means)
        symbol = figure_sensitivity.SYMBOLS[setting]
        measured = ", ".join(f"{dataset} -{loss:.2f} %" for dataset, loss in losses.items())
        judged = verdict([loss < STABLE for loss in losses.values()])
        findings.append(Finding(f"AFGRL's accuracy is stable over {symbol}", judged, measured or NOTHING))
    return findings


def _ablation(scope: Scope, records: Records, protocol: str) -> list[Finding]:
    on_par, worst = {}, {}
    for dataset in scope.available(paper.DATASETS):
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
    """Whether the step from a middle width to the largest helps AFGRL, and more than it helps any other method."""
    held, measured = [], []
    widths, methods = figure_dimension.widths(scope), figure_dimension.compared(scope)
    for dataset in scope.available(paper.DATASETS):
        gains, spread = {}, 0.0
        for method in methods:
            points = curves.curve(scope, records, dataset, method, "n_components", widths, protocol)
            if len(points) == len(widths) > 1:
                last, middle = points[-1], points[(len(points) - 1) // 2]
                gains[method] = last[1] - middle[1]
                spread = max(last[2], middle[2]) if method == "afgrl" else spread
        if "afgrl" in gains and len(gains) == len(methods) > 1:
            held.append(gains["afgrl"] > max(spread, *(gain for method, gain in gains.items() if method != "afgrl")))
            measured.append(f"{dataset} " + ", ".join(f"{method} {gain:+.2f}" for method, gain in gains.items()))
    return Finding("AFGRL gains from a larger D where others saturate", verdict(held), "; ".join(measured) or NOTHING)


def _neighbors(scope: Scope) -> Finding:
    held, measured = [], []
    for dataset in scope.available(paper.DATASETS):
        shares = figure_ratio.ratios(scope.dataset(dataset))
        (near, _, both), (last_near, _, last_both) = shares[0], shares[-1]
        held.append(near - last_near > both - last_both)
        measured.append(
            f"{dataset} nearest {near:.3f} to {last_near:.3f}, nearest and adjacent {both:.3f} to {last_both:.3f}"
        )
    sizes = f"k = {figure_ratio.SIZES[0]} to {figure_ratio.SIZES[-1]}"
    claim = "as k grows, neighbors that are near and adjacent keep the label better than near ones"
    return Finding(claim, verdict(held), f"{sizes}: {'; '.join(measured)}" if measured else NOTHING)


def _separation(scope: Scope) -> Finding:
    found = figure_tsne.separations(scope)
    measured = ", ".join(f"{method} {silhouette:.3f}" for method, (silhouette, _) in found.items())
    held = [found["afgrl"][0] > found["gca"][0]] if len(found) == 2 else []
    return Finding("AFGRL separates the classes better than GCA (silhouette)", verdict(held), measured or NOTHING)
