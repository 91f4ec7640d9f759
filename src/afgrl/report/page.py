"""Assembles the HTML page, as one file or for a server."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from contextlib import ExitStack
from importlib import resources
from pathlib import Path
from typing import Any

from afgrl.errors import UserError
from afgrl.report.arrays import safe_json
from afgrl.report.best import best_run
from afgrl.report.payload import display_names, run_payload
from afgrl.runs.files import replace_file
from afgrl.runs.folder import Run

# In loading order.
SCRIPTS = (
    "plotly-gl2d-strict.min.js", "dom.js", "data.js", "sample.js", "colors.js", "charts.js", "labels.js", "plot.js",
    "touch.js", "search.js", "explain.js", "node.js", "legend.js", "sections.js", "training.js", "scores.js",
    "quality.js", "clusters.js", "explorer.js", "page.js",
)  # fmt: skip
STYLES = ("page.css",)


def write_page(
    runs: list[Run], out: Path, *, projection: str = "tsne", message: Callable[[str], Any] = lambda sentence: None
) -> Path:
    """The file of a report; ``write_report`` explains it."""
    if out.is_dir() or not out.parent.is_dir():
        raise UserError(f"Cannot write the report to {str(out)!r}; name a file in an existing folder.")
    names = display_names(runs)
    with ExitStack() as held:
        for run in runs:
            held.enter_context(run.writing_file(out))
        payloads = [run_payload(run, name, projection, message) for run, name in zip(runs, names, strict=True)]
        text = standalone_page(safe_json({"live": False, "runs": payloads, "best": best_run(runs, names)}))
        replace_file(out, lambda path: path.write_text(text, encoding="utf-8"))
    return out


def standalone_page(data: str) -> str:
    """The page with everything inside. Its security policy allows exactly these scripts and no network request."""
    scripts = [f"\n{asset(name)}\n" for name in SCRIPTS]
    hashes = " ".join(f"'sha256-{_sha256(script)}'" for script in scripts)
    policy = f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:"
    return _fill_template(
        policy=f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        styles="".join(f"<style>\n{asset(name)}\n</style>" for name in STYLES),
        picture="",
        payload=f'<script type="application/json" id="payload">{data}</script>',
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )


def served_page(*, with_picture: bool = False) -> str:
    """The page for a server that has the other files at ``/static/`` and the data at ``/payload.json``; with a picture
    of the map at ``/map.png``, which the page shows until it has drawn the points."""
    picture = '<div class="frame plot" id="picture"><img src="/map.png" alt="All nodes; the points follow"></div>'
    return _fill_template(
        policy="",
        picture=picture if with_picture else "",
        styles="\n".join(f'<link rel="stylesheet" href="/static/{name}">' for name in STYLES),
        payload="",
        scripts="\n".join(f'<script src="/static/{name}" defer></script>' for name in SCRIPTS),
    )


def asset(name: str) -> str:
    return (resources.files("afgrl.report") / "static" / name).read_text(encoding="utf-8")


def _fill_template(**parts: str) -> str:
    """``page.html`` with each ``<!-- name -->`` replaced. Data contains no placeholder: ``safe_json`` escapes ``<``."""
    text = asset("page.html")
    for name, part in parts.items():
        before, after = text.split(f"<!-- {name} -->")
        text = before + part + after
    return text


def _sha256(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
