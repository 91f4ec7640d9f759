"""Checks documents, messages, docstrings and comments against tools/banned_words.txt.

python tools/check_language.py [PATH…]        # by default the whole repository; exit code 1 if words were found

A line that contains ``language: allow`` is not checked.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = Path(__file__).with_name("banned_words.txt")
PATTERNS = (
    "*.md", "docs/**/*.md", "src/**/*.md", "src/**/*.py", "src/**/*.toml", "src/afgrl/report/static/*.js",
    "src/afgrl/report/static/*.mjs", "src/afgrl/report/static/*.html", "src/afgrl/report/static/*.css",
    "benchmarks/*.py", "Makefile",
)  # fmt: skip
THIRD_PARTY = "plotly"
ALLOW = "language: allow"
# Between two words of a phrase: white space, the start of a comment line, or two adjacent string literals.
GAP = r"""(?:[\s#]|["']\s*\n\s*[frFR]*["'])+"""
F_STRING, PLACEHOLDER = re.compile(r"[rR]?[fF]"), re.compile(r"\{[^{}]*\}")
# Python 3.12 and later split f-strings into several tokens.
PROSE = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
HIDDEN = "\0"  # replaces characters that are not checked


@dataclass(frozen=True)
class Banned:
    pattern: re.Pattern[str]
    instead: str
    in_names: bool  # also checked in identifiers


def read_list(file: Path = LIST) -> list[Banned]:
    banned, section = [], ""
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line.strip() and not line.startswith("#"):
            expression, _, instead = line.partition(" => ")
            if section == "words":
                expression = rf"(?<!\w)(?:{expression.replace(' ', GAP)})(?!\w)"
            banned.append(Banned(re.compile(expression, re.IGNORECASE), instead, section == "spelling"))
    return banned


def check_text(text: str, banned: Iterable[Banned], *, only_names: bool = False) -> Iterator[tuple[int, str, str]]:
    """Line, found words and replacement for each finding."""
    for entry in banned:
        if only_names and not entry.in_names:
            continue
        for found in entry.pattern.finditer(text):
            yield text.count("\n", 0, found.start()) + 1, " ".join(found[0].split()), entry.instead


def split_python(text: str) -> tuple[str, str]:
    """The strings and comments of a program, and the rest of it; both keep the positions of their characters."""
    prose = [character if character.isspace() else HIDDEN for character in text]
    code = list(text)
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in PROSE:
            begin, end = (starts[row - 1] + column for row, column in (token.start, token.end))
            literal = text[begin:end]
            prose[begin:end] = PLACEHOLDER.sub(_hide, literal) if F_STRING.match(literal) else literal
            code[begin:end] = _hide(literal)
    return "".join(prose), "".join(code)


def _hide(text: str | re.Match[str]) -> str:
    return re.sub(r"\S", HIDDEN, text if isinstance(text, str) else text[0])


def check_file(file: Path, banned: list[Banned]) -> list[tuple[int, str, str]]:
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".py":
        prose, code = split_python(text)
        findings = [*check_text(prose, banned), *check_text(code, banned, only_names=True)]
    else:
        findings = list(check_text(text, banned))
    lines = text.split("\n")
    return sorted(finding for finding in findings if ALLOW not in lines[finding[0] - 1])


def files_below(root: Path) -> list[Path]:
    found = {file for pattern in PATTERNS for file in root.glob(pattern) if THIRD_PARTY not in file.name}
    return sorted(found)


def main(arguments: list[str]) -> int:
    files = [Path(argument).resolve() for argument in arguments] or files_below(ROOT)
    banned, n_findings = read_list(), 0
    for file in files:
        shown = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
        for line, words, instead in check_file(file, banned):
            print(f"{shown}:{line}: {words!r} → write {instead!r}")
            n_findings += 1
    print(f"{n_findings} findings in {len(files)} files.", file=sys.stderr)
    return 1 if n_findings else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
