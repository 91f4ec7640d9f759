"""Answers as tables for people."""

from __future__ import annotations

from typing import Any

from rich.table import Table

COLUMNS = (
    ("classification", "accuracy", "accuracy %"),
    ("clustering", "nmi", "NMI"),
    ("clustering", "homogeneity", "homogeneity"),
    ("clustering", "ari", "ARI"),
    ("similarity", "sim@5", "Sim@5"),
    ("similarity", "sim@10", "Sim@10"),
)
ROWS = {"random": "untrained", "hops": "[X | SX | S²X]", "raw": "raw features"}


def scores(answer: dict[str, Any]) -> Table:
    """What training bought: the trained vectors first, then what needs no training."""
    table = Table(
        title=f"{answer['dataset']}, {answer['method']}, {answer['recipe']} recipe, seed {answer['seed']}",
        caption=f"Splits: {answer['splits']}. Label-free: the last epoch for every task.",
        caption_justify="left",
    )
    for heading in ("vectors", "protocol", *(column[2] for column in COLUMNS)):
        table.add_column(heading, justify="left" if heading in ("vectors", "protocol") else "right")
    table.add_row("trained", "label-free", *_cells(answer["label-free"]), style="bold")
    if answer["paper"]:
        table.add_row("trained", "paper (epoch by labels)", *_cells(answer["paper"]))
        tasks = answer["paper"].items()
        epochs = ", ".join(f"{task} {part['epoch']}" for task, part in tasks)
        table.caption = f"{table.caption} Paper: epochs picked: {epochs}."
    for name, parts in answer["baselines"].items():
        table.add_row(ROWS[name], "label-free", *_cells(parts), style="dim")
    return table


def _cells(parts: dict[str, Any]) -> list[str]:
    return [_cell(parts[task][name], 2 if name == "accuracy" else 4) for task, name, _ in COLUMNS]


def _cell(score: dict[str, Any], digits: int) -> str:
    spread = f" ± {score['std']:.{digits}f}" if len(score["values"]) > 1 else ""
    return f"{score['mean']:.{digits}f}{spread}"


def catalogue(rows: list[dict[str, Any]]) -> Table:
    table = Table()
    for heading in ("name", "what", "nodes", "edges", "features", "classes", "at hand"):
        table.add_column(heading, justify="right" if heading in ("nodes", "edges", "features", "classes") else "left")
    for row in rows:
        counts = (f"{row[key]:,}" for key in ("nodes", "edges", "features", "classes"))
        table.add_row(row["name"], row["title"], *counts, row["at_hand"] or "no: would be downloaded")
    return table


def neighbours(name: str, found: list[dict[str, Any]]) -> Table:
    table = Table(title=f"nearest to {name}")
    table.add_column("id")
    table.add_column("similarity", justify="right")
    for neighbour in found:
        table.add_row(str(neighbour["id"]), f"{neighbour['similarity']:.4f}")
    return table


def findings(answer: dict[str, Any]) -> Table:
    table = Table(show_header=False)
    for name, value in answer.items():
        table.add_row(name, ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else str(value))
    return table
