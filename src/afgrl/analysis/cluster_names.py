"""Names of clusters, made of what distinguishes them, in the user's own units."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from afgrl.amounts import counted, numbers
from afgrl.analysis.traits import Trait

MIN_SCORE = 0.5  # standard deviations; traits that differ less are in the list of a cluster, but not in its name
MAX_NAMED = 2  # traits in a name
MAX_VALUE = 40  # characters of a category, word or node in a name
MOST = 0.5  # a share that is called mostly


@dataclass(frozen=True)
class Difference:
    """How a trait differs between a cluster and the other nodes."""

    trait: Trait
    here: float  # the mean of a number, or the share of nodes for which the trait is true
    elsewhere: float
    score: float  # standardized difference, which orders traits and is never shown

    @property
    def is_share(self) -> bool:
        return self.trait.kind not in ("number", "year")

    def phrase(self) -> str:
        here, elsewhere = self.texts()
        value, column = shortened(self.trait.value), shortened(self.trait.column)
        if self.trait.kind == "category":
            said = value if _speaks_for_itself(value) else f"{column} {value}"
            if self.here == 1:
                return f"all {said}"
            return f"mostly {said}" if self.here >= MOST else f"{here} {said} against {elsewhere}"
        if self.trait.kind == "date":
            return f"{here} {column} {value} against {elsewhere}"
        if self.trait.kind == "word":
            return f"“{value}” in {here} against {elsewhere}"
        return f"{column} {'in ' * self.is_share}{here} against {elsewhere}"

    def texts(self) -> tuple[str, str]:
        """Both values as a user writes them, with as many digits as it takes to tell them apart."""
        if self.is_share:
            return _percent(self.here), _percent(self.elsewhere)
        if self.trait.kind == "year":
            return f"{self.here:.0f}", f"{self.elsewhere:.0f}"
        pairs = [numbers((self.here, self.elsewhere), digits) for digits in (3, 4, 6)]
        here, elsewhere = next((pair for pair in pairs if pair[0] != pair[1]), pairs[-1])
        return here, elsewhere

    def as_json(self) -> dict[str, Any]:
        here, elsewhere = self.texts()
        return {
            "name": self.trait.name,
            "here": round(self.here, 6),
            "elsewhere": round(self.elsewhere, 6),
            "texts": [here, elsewhere],
        }


@dataclass(frozen=True)
class Structure:
    """The edges of a cluster, and the node they meet at."""

    center: str  # the node with most edges inside
    inside: int  # edges between nodes of the cluster
    total: int  # edges with at least one end in it
    outside: str = ""  # the node of another cluster with most edges into this one

    def phrase(self) -> str:
        if not self.total:
            return f"around {shortened(self.center)}, no edges"
        if not self.inside:
            return f"linked to {shortened(self.outside)}, no edges inside"
        return f"around {shortened(self.center)}, {self.inside:,} of {counted(self.total, 'edge')} inside"


def name_clusters(differences: Sequence[Sequence[Difference]], structures: Sequence[Structure]) -> list[str]:
    """One name per cluster, from its traits, or from its edges if no trait stands out.

    A name that several clusters would have also says their center.
    """
    if len(differences) == 1:
        return ["all nodes"]
    names = [_name_by_traits(found) or own.phrase() for found, own in zip(differences, structures, strict=True)]
    counts = Counter(names)
    return [
        name if counts[name] == 1 else f"{name}, around {shortened(own.center)}"
        for name, own in zip(names, structures, strict=True)
    ]


def _name_by_traits(found: Sequence[Difference]) -> str:
    """The traits that differ most, one per column; another one of the same column only if there is no other column."""
    strong = [difference for difference in found if difference.score >= MIN_SCORE and _describes_a_group(difference)]
    columns: dict[str, Difference] = {}
    for difference in strong:
        columns.setdefault(difference.trait.column, difference)
    chosen = list(columns.values())[:MAX_NAMED]
    if len(chosen) < MAX_NAMED:
        chosen = [d for d in strong if d.trait.kind not in ("category", "date") or d in chosen][:MAX_NAMED]
    if all(difference.trait.column == "edges per node" for difference in chosen):
        return ""  # a count of edges alone says less than the center and its edges
    return ", ".join(d.phrase() for d in sorted(chosen, key=lambda d: d.trait.kind != "category"))


def _describes_a_group(difference: Difference) -> bool:
    """Whether a share is large enough to speak of the group: a word of every tenth node does not."""
    return not difference.is_share or difference.here >= 0.1


def _speaks_for_itself(value: str) -> bool:
    """Whether a category can stand without the name of its column, unlike 1, yes, A1 or an abbreviation."""
    return len(value) > 3 and any(character.isalpha() for character in value) and not value[-1].isdigit()


def _percent(share: float) -> str:
    """Never 0 % if there is one node, and never 100 % if one is missing."""
    if 0 < share < 0.005:
        return "<1 %"
    return ">99 %" if 0.995 <= share < 1 else f"{100 * share:.0f} %"


def shortened(text: str, most: int = MAX_VALUE) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
