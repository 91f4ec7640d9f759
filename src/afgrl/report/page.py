"""The page: its parts put together, for one file or for a server."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable
from importlib import resources
from pathlib import Path

from afgrl.errors import UserError
from afgrl.report.arrays import safe_json
from afgrl.report.payload import names_of, payload
from afgrl.runs import Run
from afgrl.writing import replace_file

SCRIPTS = (
    "plotly-gl2d-strict.min.js", "dom.js", "data.js", "colors.js", "map.js", "touch.js", "charts.js", "node.js",
    "sections.js", "scores.js", "live.js", "page.js",
)  # fmt: skip
STYLES = ("page.css",)


def report(
    runs: list[Run], out: Path, *, map_name: str = "tsne", say: Callable[[str], None] = lambda line: None
) -> Path:
    """Write what there is to know about runs, side by side if several, into one file that opens without a network."""
    if not runs:
        raise UserError("A report needs at least one run.")
    if out.is_dir() or not out.parent.is_dir():
        raise UserError(f"The report cannot be written to {str(out)!r}; name a file in a folder that exists.")
    shown = [payload(run, name, map_name, say, neighbors=True) for run, name in zip(runs, names_of(runs), strict=True)]
    text = one_file(safe_json({"live": False, "runs": shown}))
    replace_file(out, lambda path: path.write_text(text, encoding="utf-8"))
    return out


def one_file(data: str) -> str:
    """The page with everything inside. Its policy admits these very scripts and no request to anywhere."""
    scripts = [f"\n{asset(name)}\n" for name in SCRIPTS]
    hashes = " ".join(f"'sha256-{_hash(script)}'" for script in scripts)
    policy = f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:"
    return filled(
        policy=f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        styles="".join(f"<style>\n{asset(name)}\n</style>" for name in STYLES),
        payload=f'<script type="application/json" id="payload">{data}</script>',
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )


def served() -> str:
    """The page for a server that has the other files beside it, and the data at ``payload.json``."""
    return filled(
        policy="",
        styles=_lines(f'<link rel="stylesheet" href="/static/{name}">' for name in STYLES),
        payload="",
        scripts=_lines(f'<script src="/static/{name}" defer></script>' for name in SCRIPTS),
    )


def filled(**parts: str) -> str:
    text = asset("page.html")
    for name, part in parts.items():
        before, after = text.split(f"<!-- {name} -->")
        text = before + part + after
    return text


def asset(name: str) -> str:
    return (resources.files("afgrl.report") / "static" / name).read_text(encoding="utf-8")


def _lines(words: Iterable[str]) -> str:
    return "\n".join(words)


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
