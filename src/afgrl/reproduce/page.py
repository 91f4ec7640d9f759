"""All results on one self-contained HTML page."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from pathlib import Path

from afgrl.amounts import counted
from afgrl.reproduce.layout import BELOW, Table
from afgrl.reproduce.result import Records, Result
from afgrl.runs.files import replace_file

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 2.5rem; border-top: 1px solid #ddd; padding-top: 1rem; }
table { border-collapse: collapse; margin: 0.8rem 0; font-size: 13px; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: 0.3rem 0; }
th, td { padding: 0.15rem 0.6rem; text-align: right; border-bottom: 1px solid #eee; white-space: nowrap; }
th:first-child, td:first-child, td.words, th.words { text-align: left; }
th { border-bottom: 1px solid #999; } tr.below td { background: #fff3e0; }
p.note, summary { color: #555; font-size: 13px; } details { margin: 0.8rem 0; }
div.wide { overflow-x: auto; } svg { max-width: 100%; height: auto; } code { font-size: 12px; }
nav a { margin-right: 0.9rem; white-space: nowrap; } td.words { white-space: normal; min-width: 5rem; }
"""
LEAD = (
    "Every table and figure of the paper, computed by afgrl reproduce, beside the published values. Each section lists "
    "its runs with all settings and the command that repeats them."
)


def section(name: str, result: Result, drawings: dict[str, str], records: Records) -> str:
    """One result; ``drawings`` are its pictures as SVG."""
    parts = [f'<section id="{name}">', f"<h2>{html.escape(result.title)}</h2>"]
    parts += [f"<figure>{svg[svg.index('<svg') :]}</figure>" for svg in drawings.values()]
    tables = "".join(
        f'<div class="wide">{_table(table, titled=table.title != result.title)}</div>' for table in result.tables
    )
    parts.append(f"<details><summary>Tables</summary>{tables}</details>" if drawings else tables)
    parts += [f'<p class="note">{_prose(note)}</p>' for note in result.notes]
    if records:
        summary = f"{counted(len(records), 'run')}: settings and commands"
        parts.append(f"<details><summary>{summary}</summary>{_runs(records)}</details>")
    return "\n".join([*parts, "</section>"]) + "\n"


def _prose(note: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(note))


def write(out: Path, names: Sequence[str]) -> None:
    """``reproduction.html`` from the sections of this call and of earlier ones."""
    files = {name: out / "parts" / f"{name}.html" for name in names}
    sections = {name: file.read_text(encoding="utf-8") for name, file in files.items() if file.is_file()}
    links = " ".join(f'<a href="#{name}">{name}</a>' for name in sections)
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>afgrl: the paper reproduced</title>'
        f"<style>{STYLE}</style></head><body><h1>Augmentation-Free Self-Supervised Learning on Graphs, reproduced</h1>"
        f"<p>{html.escape(LEAD)}</p><nav>{links}</nav>{''.join(sections.values())}</body></html>\n"
    )
    replace_file(out / "reproduction.html", lambda path: path.write_text(text, encoding="utf-8"))


def _table(table: Table, *, titled: bool) -> str:
    caption = f"<caption>{html.escape(table.title)}</caption>" if titled else ""
    is_text = [column.digits is None for column in table.columns]
    head = _row([column.title for column in table.columns], is_text, "th")
    body = "".join(
        f"<tr{' class=' + chr(34) + 'below' + chr(34) if BELOW in row else ''}>{_row(row, is_text, 'td')}</tr>"
        for row in table.texts()
    )
    return f"<table>{caption}<tr>{head}</tr>{body}</table>"


def _row(texts: Sequence[str], is_text: Sequence[bool], tag: str) -> str:
    return "".join(
        f"<{tag}{' class=' + chr(34) + 'words' + chr(34) if left else ''}>{html.escape(text)}</{tag}>"
        for text, left in zip(texts, is_text, strict=True)
    )


def _runs(records: Records) -> str:
    parts = []
    for spec, record in records.items():
        command, settings = str(spec.command()), json.dumps(record["settings"], sort_keys=True)
        environment = record["environment"]
        where = f"{environment['device']}, commit {environment['commit']}"
        parts.append(
            f"<p><code>{html.escape(command)}</code><br><code>{html.escape(settings)}</code><br>"
            f"{html.escape(where)}, {record['epochs']} epochs in {record['seconds']:.1f} s</p>"
        )
    return "".join(parts)
