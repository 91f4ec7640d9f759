"""The ingest report: what was read from a source (info), what was changed (fixed), and what looks wrong (warning)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Message:
    level: Literal["info", "fixed", "warning"]
    text: str  # one sentence


@dataclass
class IngestReport:
    """Messages for the user, in the order in which they came up."""

    messages: list[Message] = field(default_factory=list)

    def info(self, text: str) -> None:
        self.messages.append(Message("info", text))

    def fixed(self, text: str) -> None:
        self.messages.append(Message("fixed", text))

    def warning(self, text: str) -> None:
        self.messages.append(Message("warning", text))

    @property
    def sentences(self) -> list[str]:
        """As printed: a warning says that it is one."""
        return [f"Warning: {entry.text}" if entry.level == "warning" else entry.text for entry in self.messages]

    def as_json(self) -> list[dict[str, str]]:
        return [asdict(entry) for entry in self.messages]

    @classmethod
    def from_json(cls, stored: list[dict[str, str]]) -> IngestReport:
        return cls([Message(**entry) for entry in stored])  # type: ignore[arg-type]


def first_few(names: list[str], most: int = 3) -> str:
    """The first few names, and how many more there are."""
    quoted = ", ".join(repr(name) for name in names[:most])
    return quoted + (f" and {len(names) - most:,} more" if len(names) > most else "")
