"""Answers as terminal tables of at most eighty columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from afgrl import DEFAULT_METHOD
from afgrl.amounts import byte_size, counted, duration, shown, shown_column
from afgrl.evaluate.best import MARK, best_of_columns
from afgrl.evaluate.columns import BASELINES, COLUMNS, READOUT_COLUMNS, ScoreColumn


def scores(answer: dict[str, Any]) -> list[Table]:
    """The scores of the trained vectors first, then those of the untrained baselines; and the clustering readout."""
    return [_task_scores(answer), _readout_scores(answer)]


def _task_scores(answer: dict[str, Any]) -> Table:
    table = make_table("vectors", right=[heading for _, _, heading in COLUMNS])
    table.title = make_title(
        f"{answer['dataset']}, {answer['method']}, {answer['recipe']} recipe, seed {answer['seed']}"
    )
    table.caption = (
        f"{MARK} best of its column. Last-epoch evaluation: one embedding for all tasks. Splits: {answer['splits']}."
    )
    if answer["sampled"]:
        table.caption += f" {answer['sampled']}"
    if answer["best-epoch"]:
        epochs = ", ".join(f"{task} {part['epoch']}" for task, part in answer["best-epoch"].items() if "epoch" in part)
        table.caption += f" Best epoch: chosen with labels, as in the paper ({epochs})."
    _add_scores(table, answer)
    return table


def _readout_scores(answer: dict[str, Any]) -> Table:
    """All vectors but those of the best epoch, which have no readout."""
    table = make_table("vectors", right=[heading for _, _, heading in READOUT_COLUMNS])
    table.title = make_title("Clustering readout")
    table.caption = (
        "k-means on the leading directions of the vectors and their PageRank average; each fit is the best of 10 "
        "restarts, chosen without labels."
    )
    _add_scores(table, answer, READOUT_COLUMNS)
    return table


def _add_scores(table: Table, answer: dict[str, Any], columns: Sequence[ScoreColumn] = COLUMNS) -> None:
    """A row of each embedding that has these scores. Those of the best epoch, chosen with labels, have no mark."""
    titled = {
        "trained": answer["last-epoch"],
        **{BASELINES[name]: parts for name, parts in answer["baselines"].items()},
    }
    titled = {title: parts for title, parts in titled.items() if columns[0].task in parts}
    rows = list(zip(titled, mark_best([_cells(parts, columns) for parts in titled.values()]), strict=True))
    if answer["best-epoch"] and columns is COLUMNS:
        rows.insert(1, ("best epoch", [Text(cell) for cell in _cells(answer["best-epoch"], columns)]))
    for title, cells in rows:
        table.add_row(title, *cells)


def mark_best(rows: Sequence[Sequence[str]]) -> list[list[Text]]:
    """The best value of each column is bold, and has a star for those who see no bold."""
    return [
        [Text(MARK + cell, "bold") if is_best else Text(cell) for cell, is_best in zip(row, best, strict=True)]
        for row, best in zip(rows, best_of_columns(rows), strict=True)
    ]


def _cells(parts: dict[str, Any], columns: Sequence[ScoreColumn] = COLUMNS) -> list[str]:
    return [_cell(parts[column.task][column.name], column) for column in columns]


def _cell(score: dict[str, Any], column: ScoreColumn) -> str:
    shown = f"{score['mean']:.{column.digits}f}"
    shows_spread = column.name == "accuracy" and len(score["values"]) > 1
    return shown + (f" ± {score['std']:.{column.digits}f}" if shows_spread else "")


def catalog(rows: list[dict[str, Any]]) -> Table:
    counts = ("nodes", "edges", "features", "classes")
    table = make_table("name", "title", right=counts)
    table.add_column("available")
    for row in rows:
        numbers = (f"{row[key]:,}" for key in counts)
        table.add_row(row["name"], row["title"], *numbers, "yes" if row["available"] else "no")
    table.caption = "Available: in --data-dir, AFGRL_DATA or the cache; the others are downloaded at first use."
    return table


MAX_COLUMNS, MAX_CELL = 4, 18  # of the nodes beside a similarity


def neighbors(name: str, found: list[dict[str, Any]]) -> Table:
    """Similar nodes with their names and their first columns."""
    has_names = any("name" in neighbor for neighbor in found)
    every = list(found[0].get("columns", {})) if found else []
    columns = every[:MAX_COLUMNS]
    table = make_table("id", *(["name"] if has_names else []), right=["similarity"])
    for column in columns:
        table.add_column(Text(_shortened(column)))
    table.title = make_title(f"most similar to {name}")
    cells = [_cells_of_column([neighbor["columns"][column] for neighbor in found]) for column in columns]
    for row, neighbor in enumerate(found):
        names = [Text(_shortened(neighbor["name"], 40))] if has_names else []
        table.add_row(
            Text(str(neighbor["id"])), *names, f"{neighbor['similarity']:.4f}", *(column[row] for column in cells)
        )
    if len(every) > len(columns):
        table.caption = f"Columns not shown: {len(every) - len(columns)}; --json lists all."
    return table


def _cells_of_column(values: Sequence[Any]) -> list[Text]:
    """Texts are cut; a number without its last digits would be another number."""
    return [
        Text(_shortened(value) if isinstance(value, str) else text)
        for value, text in zip(values, shown_column(values), strict=True)
    ]


def _shortened(value: Any, most: int = MAX_CELL) -> str:
    text = shown(value)
    return text if len(text) <= most else text[: most - 1] + "…"


def clusters(answer: dict[str, Any]) -> Table:
    """Each cluster with its size, its name and its most central nodes."""
    table = make_table("cluster", right=["nodes"])
    table.add_column("what distinguishes it")
    table.add_column("most central nodes")
    table.caption = (
        f"{counted(answer['k'], 'cluster')} of the {answer['clustered']}; number chosen by: {answer['criterion']}."
    )
    for row in answer["clusters"]:
        names = row.get("closest_names", row["closest"])
        central = [_with_name(*node) for node in zip(row["closest"], names, strict=True)][:3]
        table.add_row(str(row["cluster"]), f"{row['size']:,}", Text(row["name"]), Text(", ".join(central)))
    return table


def _with_name(node_id: Any, name: Any) -> str:
    return str(node_id) if str(name) == str(node_id) else f"{name} ({node_id})"


def bench(answer: dict[str, Any]) -> list[Table]:
    """Epochs and stages. CPU times are shown as ratios only, since they vary between machines and runs."""
    absolute = answer["device"].startswith(("NVIDIA", "AMD"))
    if "default" in answer:
        return _default_times(answer, absolute)
    if "methods" in answer:
        return [_method_epochs(answer, absolute)]
    times = ["reference ms", "fast ms", "limit ms"] if absolute else []
    epochs, stages = (
        make_table(*left, right=[*times, "speedup", "of limit", *right], no_wrap=True)
        for left, right in ((["epoch"], ["peak memory", "predicted"]), (["", "stage"], []))
    )
    epochs.title = f"{answer['device']}, torch {answer['versions']['torch']}"
    epochs.caption = f"Recipe: {answer['recipe']}. Speedup: over the reference."
    for row in answer["epochs"]:
        name = row["dataset"] + (" *" if row["graph"] == "synthetic" else "")
        memory = [byte_size(row[key]) if row[key] else "–" for key in ("peak_bytes", "predicted_bytes")]
        epochs.add_row(name, *_speeds(row, absolute), *memory)
    if any(row["graph"] == "synthetic" for row in answer["epochs"]):
        epochs.caption += " *: synthetic graph of that size."
    for row in answer["stages"]:
        stages.add_row(row["dataset"], row["stage"], *_speeds(row, absolute))
    return [epochs, stages]


def _default_times(answer: dict[str, Any], absolute: bool) -> list[Table]:
    """The parts of the default, in seconds on a GPU and in percent on a CPU, and how much longer others take."""
    parts = ["preparation", "training", "embedding"]
    times, ratios = (
        make_table("graph", right=["nodes", *parts, *(["seconds"] if absolute else [])]),
        make_table("graph", right=["full batches", "Deep Graph Infomax"]),
    )
    times.title = f"{answer['device']}, torch {answer['versions']['torch']}"
    times.caption = "From a graph in memory to its vectors, default settings, kernels compiled."
    ratios.caption = "Times as long as the default; extrapolated from a few epochs. –: features too large to be dense."
    for row in answer["default"]:
        name = row["dataset"] + (" *" if row["graph"] == "synthetic" else "")
        cells = [f"{row[part]:.2f}" if absolute else f"{row[part] / row['seconds']:.0%}" for part in parts]
        times.add_row(name, f"{row['nodes']:,}", *cells, *([f"{row['seconds']:.2f}"] if absolute else []))
        others = [row["full_batch_ratio"], row["dgi_ratio"]]
        ratios.add_row(name, *("–" if ratio is None else f"{ratio:.1f}" for ratio in others))
    if any(row["graph"] == "synthetic" for row in answer["default"]):
        times.caption += " *: synthetic graph of that size."
    return [times, ratios]


def _method_epochs(answer: dict[str, Any], absolute: bool) -> Table:
    times = ["reference ms", "fast ms"] if absolute else []
    table = make_table("graph", "method", right=[*times, "speedup", "peak memory"])
    table.title = f"{answer['device']}, torch {answer['versions']['torch']}"
    table.caption = (
        f"One epoch, recipe: {answer['recipe']}. Speedup: over the reference; –: the reference does not fit."
    )
    for row in answer["methods"]:
        name = row["dataset"] + (" *" if row["graph"] == "synthetic" else "")
        cells = ["–" if row[key] is None else f"{row[key]:.2f}" for key in ("reference_ms", "fast_ms")]
        faster = "–" if row["speedup"] is None else f"{row['speedup']:.1f} x"
        memory = byte_size(row["peak_bytes"]) if row["peak_bytes"] else "–"
        table.add_row(name, row["method"], *(cells if absolute else []), faster, memory)
    return table


def _speeds(row: dict[str, Any], absolute: bool) -> list[str]:
    times = [row["reference_ms"], row["fast_ms"], row["limit_ms"]]
    cells = ["–" if time is None else f"{time:.2f}" for time in times] if absolute else []
    share = "–" if row["limit_ms"] is None else f"{row['limit_ms'] / row['fast_ms']:.0%}"
    return [*cells, f"{row['speedup']:.1f} x", share]


LEVELS = {"info": "", "fixed": "fixed", "warning": "warning"}


def check(answer: dict[str, Any]) -> list[Table]:
    """Counts of a graph, and the ingest report."""
    counts = Table(show_header=False, box=box.SIMPLE)
    for name, value in answer.items():
        if name != "messages" and value is not None:
            counts.add_row(name.replace("_", " "), Text(shown(value)))
    report = Table(show_header=False, box=box.SIMPLE)
    for message in answer["messages"]:
        style = {"warning": "bold yellow", "fixed": "cyan"}.get(message["level"])
        report.add_row(LEVELS[message["level"]], Text(message["text"]), style=style)
    return [counts, report] if answer["messages"] else [counts]


def forecast(answer: dict[str, Any]) -> list[Table]:
    """Memory and time on each device, and what takes less time."""
    settings = answer["settings"]
    step = "step" if "steps" in settings else "epoch"
    table = make_table("device", right=["memory", "free", "fits", step, "total" if step == "step" else "training"])
    table.title = make_title(
        f"{answer['name']}: "
        + ", ".join(counted(answer[things], things[:-1]) for things in ("nodes", "edges", "features"))
    )
    shown = ["steps", "batch_size", "input", "skip"] if step == "step" else ["epochs"]
    chosen = ", ".join(f"{name} {settings[name]}" for name in [*shown, "n_components", "predictor_width", "n_hops"])
    table.caption = f"{answer['method']} with {chosen}. Times are estimates from this machine's matrix product rate."
    table.caption += f" {_disk(answer['disk'])}"
    for row in answer["devices"]:
        memory = [byte_size(row[name]) for name in ("memory_bytes", "free_bytes")]
        fits = "yes" if row["fits"] else "no"
        table.add_row(row["device"], *memory, fits, duration(row[f"{step}_seconds"]), duration(row["seconds"]))
        if row["temporary_bytes"]:
            table.caption += f" Training takes up to {byte_size(row['temporary_bytes'])} of temporary disk."
        if row["narrower"]:
            table.caption += f" These settings fit: {_options(row['narrower'])}."
    proposals = [(row["device"], proposal) for row in answer["devices"] for proposal in row["faster"]]
    return [table, _faster(proposals)] if proposals else [table]


def _disk(disk: dict[str, int]) -> str:
    run, temporary, memory = (byte_size(disk[f"{name}_bytes"]) for name in ("run", "temporary", "reading_memory"))
    if not disk["temporary_bytes"]:
        return f"The run folder takes about {run} of disk."
    return (
        f"The run folder takes about {run} of disk; reading the tables takes up to {temporary} of temporary disk and "
        f"{memory} of memory."
    )


def _faster(proposals: list[tuple[str, dict[str, Any]]]) -> Table:
    table = make_table("faster", "device", right=["total"])
    table.add_column("measured change of quality")
    table.caption = "Each change is a mean over benchmark graphs with one training run each."
    for device, proposal in proposals:
        method = [] if proposal["method"] == DEFAULT_METHOD else [f"--method {proposal['method']}"]
        options = " ".join([*method, *([_options(proposal["settings"])] if proposal["settings"] else [])])
        table.add_row(options, device, duration(proposal["seconds"]), proposal["quality"])
    return table


def _options(settings: dict[str, Any]) -> str:
    """As options of the command line."""
    return " ".join(f"--set {name}={value}" for name, value in settings.items())


def findings(answer: dict[str, Any]) -> Table:
    table = Table(show_header=False, box=box.SIMPLE)
    for name, value in answer.items():
        text = ", ".join(f"{key} {item}" for key, item in value.items()) if isinstance(value, dict) else shown(value)
        table.add_row(name, Text(text))
    return table


def make_title(text: str) -> Text:
    """Literal text: names of nodes and files must not be parsed as Rich markup."""
    return Text(text, style="table.title")


def make_table(*left: str, right: Any, no_wrap: bool = False) -> Table:
    table = Table(box=box.SIMPLE, title_justify="left", caption_justify="left", padding=(0, 1, 0, 0))
    for heading in left:
        table.add_column(heading, no_wrap=no_wrap)
    for heading in right:
        table.add_column(heading, justify="right", no_wrap=True)
    return table
