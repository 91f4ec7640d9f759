"""One hand-made input: files, and the command line that reads them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

Content = bytes | Callable[[Path], object]  # the bytes of a file, or what creates something else at its path


@dataclass(frozen=True)
class Handmade:
    """In ``words``, {folder} is the folder of the files, in which the command also runs."""

    name: str
    words: tuple[str, ...]
    files: Mapping[str, Content] = field(default_factory=dict)
    needs_run: bool = False  # whether the folder also has a small finished run, named "run"


def check(name: str, files: Mapping[str, Content], source: str = ".", *options: str) -> Handmade:
    return Handmade(name, ("check", f"{{folder}}/{source}", "--json", *options), files)
