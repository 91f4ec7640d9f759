"""Answers as tables for people, within eighty columns."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

COLUMNS = (
    ("classification", "accuracy", "accuracy %"),
    ("clustering", "nmi", "NMI"),
    ("clustering", "homogeneity", "homog."),
    ("clustering", "ari", "ARI"),
    ("similarity", "sim@5", "Sim@5"),
    ("similarity", "sim@10", "Sim@10"),
)
BASELINES = {"random": "untrained", "hops": "[X | SX | S²X]", "raw": "raw features"}


def scores(answer: dict[str, Any]) -> Table:
    """What training bought: the trained vectors first, then what needs no training."""
    table = _table("vectors", right=[heading for _, _, heading in COLUMNS])
    table.title = _title(f"{answer['dataset']}, {answer['method']}, {answer['recipe']} recipe, seed {answer['seed']}")
    table.caption = f"Label-free protocol: the last epoch for every task. Splits: {answer['splits']}."
    table.add_row("trained", *_cells(answer["label-free"]), style="bold")
    if answer["paper"]:
        table.add_row("trained (paper)", *_cells(answer["paper"]))
        epochs = ", ".join(f"{task} {part['epoch']}" for task, part in answer["paper"].items())
        table.caption += f" (paper): the paper's protocol, which picks the epoch with labels: {epochs}."
    for name, parts in answer["baselines"].items():
        table.add_row(BASELINES[name], *_cells(parts), style="dim")
    return table


def _cells(parts: dict[str, Any]) -> list[str]:
    return [_cell(parts[task][name], name) for task, name, _ in COLUMNS]


def _cell(score: dict[str, Any], name: str) -> str:
    if name == "accuracy":
        return f"{score['mean']:.2f}" + (f" ± {score['std']:.2f}" if len(score["values"]) > 1 else "")
    return f"{score['mean']:.4f}"


def catalog(rows: list[dict[str, Any]]) -> Table:
    counts = ("nodes", "edges", "features", "classes")
    table = _table("name", "what", right=counts)
    table.add_column("at hand")
    for row in rows:
        numbers = (f"{row[key]:,}" for key in counts)
        table.add_row(row["name"], row["title"], *numbers, "yes" if row["at_hand"] else "no")
    table.caption = "At hand: in --data-dir, AFGRL_DATA or the cache; the others are downloaded when first used."
    return table


def neighbors(name: str, found: list[dict[str, Any]]) -> Table:
    table = _table("id", right=["similarity"])
    table.title = _title(f"nearest to {name}")
    for neighbor in found:
        table.add_row(Text(str(neighbor["id"])), f"{neighbor['similarity']:.4f}")
    return table


def clusters(answer: dict[str, Any]) -> Table:
    """Each cluster with its size, what sets it apart and its most central nodes."""
    table = _table("cluster", right=["nodes"])
    table.add_column("more than elsewhere, or less (−)")
    table.add_column("most central")
    table.caption = f"{answer['k']} clusters; their number: {answer['criterion']}."
    for row in answer["clusters"]:
        typical = [f"{'' if item['here'] > item['elsewhere'] else '−'}{item['name']}" for item in row["features"][:4]]
        central = [str(name) for name in row["closest"][:3]]
        table.add_row(str(row["cluster"]), f"{row['size']:,}", Text(", ".join(typical)), Text(", ".join(central)))
    return table


def bench(answer: dict[str, Any]) -> list[Table]:
    """Epochs and stages. Times of a CPU stand only as ratios: they differ from machine to machine and hour to hour."""
    absolute = answer["device"].startswith(("NVIDIA", "AMD"))
    if "methods" in answer:
        return [_method_epochs(answer, absolute)]
    times = ["plain ms", "fast ms", "limit ms"] if absolute else []
    epochs, stages = (
        _table(*left, right=[*times, "faster", "of limit", *right], no_wrap=True)
        for left, right in ((["epoch"], ["peak GiB", "predicted"]), (["", "stage"], []))
    )
    epochs.title = f"{answer['device']}, torch {answer['versions']['torch']}"
    epochs.caption = f"The {answer['recipe']} recipe. Faster: than the reference."
    for row in answer["epochs"]:
        name = row["dataset"] + (" *" if row["graph"] == "synthetic" else "")
        memory = [f"{row[key] / 2**30:.2f}" if row[key] else "–" for key in ("peak_bytes", "predicted_bytes")]
        epochs.add_row(name, *_speeds(row, absolute), *memory)
    if any(row["graph"] == "synthetic" for row in answer["epochs"]):
        epochs.caption += " *: a made-up graph of that size."
    for row in answer["stages"]:
        stages.add_row(row["dataset"], row["stage"], *_speeds(row, absolute))
    return [epochs, stages]


def _method_epochs(answer: dict[str, Any], absolute: bool) -> Table:
    times = ["plain ms", "fast ms"] if absolute else []
    table = _table("graph", "method", right=[*times, "faster", "peak GiB"])
    table.title = f"{answer['device']}, torch {answer['versions']['torch']}"
    table.caption = f"An epoch by the {answer['recipe']} recipe. Faster: than the reference; –: it does not fit."
    for row in answer["methods"]:
        name = row["dataset"] + (" *" if row["graph"] == "synthetic" else "")
        cells = ["–" if row[key] is None else f"{row[key]:.2f}" for key in ("reference_ms", "fast_ms")]
        faster = "–" if row["speedup"] is None else f"{row['speedup']:.1f} x"
        memory = f"{row['peak_bytes'] / 2**30:.2f}" if row["peak_bytes"] else "–"
        table.add_row(name, row["method"], *(cells if absolute else []), faster, memory)
    return table


def _speeds(row: dict[str, Any], absolute: bool) -> list[str]:
    times = [row["reference_ms"], row["fast_ms"], row["limit_ms"]]
    cells = ["–" if time is None else f"{time:.2f}" for time in times] if absolute else []
    share = "–" if row["limit_ms"] is None else f"{row['limit_ms'] / row['fast_ms']:.0%}"
    return [*cells, f"{row['speedup']:.1f} x", share]


SIGNS = {"understood": "", "repaired": "repaired", "suspicious": "suspicious"}


def check(answer: dict[str, Any]) -> list[Table]:
    """Counts of a graph, and what there is to say of it."""
    counts = Table(show_header=False, box=box.SIMPLE)
    for name, value in answer.items():
        if name != "notes" and value is not None:
            counts.add_row(name.replace("_", " "), Text(f"{value:,}" if isinstance(value, int) else str(value)))
    notes = Table(show_header=False, box=box.SIMPLE)
    for note in answer["notes"]:
        style = {"suspicious": "bold yellow", "repaired": "cyan"}.get(note["kind"])
        notes.add_row(SIGNS[note["kind"]], Text(note["text"]), style=style)
    return [counts, notes] if answer["notes"] else [counts]


def forecast(answer: dict[str, Any]) -> Table:
    table = _table("device", right=["memory", "free", "fits", "an epoch", "training"])
    table.title = _title(
        f"{answer['name']}: {answer['nodes']:,} nodes, {answer['edges']:,} edges, {answer['features']:,} features"
    )
    settings = answer["settings"]
    chosen = ", ".join(f"{name} {settings[name]}" for name in ("epochs", "n_components", "predictor_width", "n_hops"))
    table.caption = f"AFGRL with {chosen}. Times are rough: products at this machine's rate."
    for row in answer["devices"]:
        memory = [f"{row[name] / 2**30:.1f} GiB" for name in ("memory_bytes", "free_bytes")]
        fits = "yes" if row["fits"] else "no"
        table.add_row(row["device"], *memory, fits, _duration(row["epoch_seconds"]), _duration(row["seconds"]))
        if row["narrower"]:
            table.caption += (
                " Fits: " + " ".join(f"--set {name}={value}" for name, value in row["narrower"].items()) + "."
            )
    return table


def _duration(seconds: float) -> str:
    if seconds < 1:
        return f"{1e3 * seconds:.0f} ms"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def findings(answer: dict[str, Any]) -> Table:
    table = Table(show_header=False, box=box.SIMPLE)
    for name, value in answer.items():
        text = ", ".join(f"{key} {item}" for key, item in value.items()) if isinstance(value, dict) else str(value)
        table.add_row(name, Text(text))
    return table


def _title(text: str) -> Text:
    """Names of nodes and files are shown as they are, and not read as rich's markup."""
    return Text(text, style="table.title")


def _table(*left: str, right: Any, no_wrap: bool = False) -> Table:
    table = Table(box=box.SIMPLE, title_justify="left", caption_justify="left", padding=(0, 1, 0, 0))
    for heading in left:
        table.add_column(heading, no_wrap=no_wrap)
    for heading in right:
        table.add_column(heading, justify="right", no_wrap=True)
    return table
