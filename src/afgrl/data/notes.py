"""What was understood of a source, what was repaired in it, and what looks suspicious."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Note:
    kind: Literal["understood", "repaired", "suspicious"]
    text: str  # a sentence


@dataclass
class Notes:
    """Sentences for the user, in the order in which they came up."""

    all: list[Note] = field(default_factory=list)

    def understood(self, text: str) -> None:
        self.all.append(Note("understood", text))

    def repaired(self, text: str) -> None:
        self.all.append(Note("repaired", text))

    def suspicious(self, text: str) -> None:
        self.all.append(Note("suspicious", text))

    @property
    def sentences(self) -> list[str]:
        return [f"Suspicious: {note.text}" if note.kind == "suspicious" else note.text for note in self.all]

    def as_json(self) -> list[dict[str, str]]:
        return [asdict(note) for note in self.all]


def some(names: list[str], most: int = 3) -> str:
    """The first few, and how many more."""
    quoted = ", ".join(repr(name) for name in names[:most])
    return quoted + (f" and {len(names) - most:,} more" if len(names) > most else "")
