"""The explorer with a million nodes: how long a user waits for the first view and for each answer, and what it takes.

python -m benchmarks.explorer_million [--nodes 1000000]      # → results/explorer-million.json
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import torch
from playwright.sync_api import sync_playwright

from afgrl.data.dataset import Dataset, Ingested
from afgrl.data.ingest import IngestReport
from afgrl.graph import Graph
from afgrl.runs.environment import current_environment
from afgrl.runs.folder import Run
from afgrl.runs.spec import RunSpec
from benchmarks import RESULTS
from benchmarks.explorer_load import Explorer, explorer_process, process_memory, system_load

WIDTH, N_CLUSTERS, MEAN_DEGREE = 32, 40, 6
N_SMALL = 1000  # nodes of the run for comparison
REPEATS = 5  # first views of each run, each in a new browser context
N_REQUESTS = 50  # of each kind
BROWSER_FLAGS = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
EXPORTED = 50_000  # rows of an export by their numbers


# The time, since the address was opened, of the second frame after the picture was complete: it is on the screen then.
NOTE_PICTURE = """
document.addEventListener("load", ({ target }) => {
  if (target.closest?.("#picture"))
    requestAnimationFrame(() => requestAnimationFrame(() => (window.pictureShown = performance.now())));
}, true);
"""


def make_run(folder: Path, n: int) -> Run:
    """A run with planted clusters, made without training; nothing is left to compute when the explorer starts."""
    draw = np.random.default_rng(0)
    ids = np.array([f"node-{i:07d}" for i in range(n)], dtype=object)
    cluster = np.sort(draw.integers(0, N_CLUSTERS, n).astype(np.int32))
    centers, places = draw.normal(size=(N_CLUSTERS, WIDTH)), draw.uniform(-50, 50, size=(N_CLUSTERS, 2))
    noise = draw.normal(size=(n, WIDTH))
    vectors = (centers[cluster] + 0.5 * noise).astype(np.float32)
    source = draw.integers(0, n, n * MEAN_DEGREE // 2)
    target = (source + draw.integers(1, 200, len(source))) % n  # mostly within a cluster
    run = Run.create(folder)
    run.save_spec(RunSpec("random"))
    graph = Graph(vectors[:, :4], np.stack([source, target]), ids=ids)
    table = pa.table({"id": ids, **_columns(n, cluster, draw)})
    ingested = Ingested(table, n, None, None, IngestReport(), "id", "name")
    run.save_dataset(Dataset("random", graph, ingested=ingested))
    run.save_embedding(ids, vectors)
    run.save_projection("tsne", places[cluster] + 4 * noise[:, :2])
    run.save_clusters(ids, cluster, _description(ids, cluster))
    return run


def _columns(n: int, cluster: np.ndarray, draw: np.random.Generator) -> dict[str, pa.Array]:
    days = draw.integers(0, 20_000, n).astype(np.int32)
    return {
        "name": pa.array([f"Person {number} of town {i % 9973}" for i, number in enumerate(draw.permutation(n))]),
        "weight": pa.array(draw.normal(70, 10, n)),
        "region": pa.array([f"region {number % 12}" for number in cluster.tolist()]),
        "joined": pa.array(days, pa.int32()).cast(pa.date32()),
    }


def _description(ids: np.ndarray, cluster: np.ndarray) -> dict[str, Any]:
    def card(number: int) -> dict[str, Any]:
        members = ids[cluster == number]
        closest = members[:5].tolist()
        name = f"group {number}"
        return {"cluster": number, "name": name, "size": len(members), "features": [], "closest": closest}

    cards = [card(number) for number in range(N_CLUSTERS)]
    return {"k": N_CLUSTERS, "criterion": "planted", "tried": [], "clusters": cards}


FILTERS: list[dict[str, Any]] = [
    {"filters": []},  # all nodes
    {"filters": [{"column": "weight", "low": 60, "high": 80}]},
    {"filters": [{"column": "region", "codes": [0, 3, 5]}, {"column": "weight", "low": 70}]},
    {"filters": [{"column": "joined", "low": 1e12}, {"column": "cluster", "codes": list(range(0, 40, 2))}]},
    {"filters": [{"column": "weight", "low": 1e6}]},  # none
]
LASSO = {"inside": [(40 * math.cos(i / 50), 40 * math.sin(i / 50)) for i in range(314)]}


def first_views(large: Explorer, small: Explorer) -> dict[str, Any]:
    """Seconds from opening the address to the map, of both explorers in turn, and what the page of the large run says:
    until the picture of the density that the server draws (large run only), and until points that can be used. The
    small run tells what a page takes on this machine at this time, whatever the number of nodes."""
    program = next(found for name in ("chromium", "google-chrome") if (found := shutil.which(name)))
    pictures: list[float] = []
    seconds: dict[str, list[float]] = {"large": [], "small": []}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=BROWSER_FLAGS)
        for name, explorer in [("small", small), ("large", large)] * REPEATS:
            context = browser.new_context(viewport={"width": 1440, "height": 900})
            page = context.new_page()
            page.add_init_script(NOTE_PICTURE)
            started = time.perf_counter()
            page.goto(f"http://{explorer.host}/?token={explorer.token}", wait_until="commit")
            page.wait_for_selector("html[data-ready]", timeout=120_000)
            # Two frames later the points are on the screen.
            page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            seconds[name].append(round(time.perf_counter() - started, 2))
            if name == "large":
                pictures.append(round(page.evaluate("() => window.pictureShown / 1000"), 2))
            said = {
                "points": page.evaluate("() => page.plots[0].holder.data[0].x.length"),
                "note": page.inner_text("#projection-note"),
            }
            context.close()  # an open page could slow down the next one
        browser.close()
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    medians["large to small"] = round(medians["large"] / medians["small"], 2)
    picture = {"picture_s": pictures, "median_picture_s": statistics.median(pictures)}
    return {**picture, "points_s": seconds, "median_points_s": medians, "page": said}


def timed(ask: Callable[[Any], httpx.Response], questions: list[Any]) -> dict[str, Any]:
    seconds, size = [], 0
    for question in questions:
        started = time.perf_counter()
        answer = ask(question)
        seconds.append(time.perf_counter() - started)
        answer.raise_for_status()
        size = max(size, len(answer.content))
    summary = {"median_s": statistics.median(seconds), "longest_s": max(seconds)}
    return {name: round(value, 4) for name, value in summary.items()} | {"requests": len(seconds), "most_bytes": size}


def first_part(client: httpx.Client, question: dict[str, Any]) -> dict[str, Any]:
    """Seconds until the first part of a file arrives, and until it is complete."""
    started, size, first = time.perf_counter(), 0, 0.0
    with client.stream("POST", "/api/export", json=question) as answer:
        answer.raise_for_status()
        for part in answer.iter_raw():
            first = first or time.perf_counter() - started
            size += len(part)
    return {"first_s": round(first, 4), "complete_s": round(time.perf_counter() - started, 4), "bytes": size}


def requests(explorer: Explorer, n: int) -> dict[str, Any]:
    draw = np.random.default_rng(1)
    rows = draw.integers(0, n, N_REQUESTS).tolist()
    # From texts that one node has to texts that every node has, and texts that none has.
    texts = [f"node-{row:07d}" for row in rows] + [f"person {row} of" for row in rows]
    texts += ["n", "1", "town 17", "region", "zzz", "e", "person", "99"]
    headers = {"Authorization": f"Bearer {explorer.token}"}
    with httpx.Client(base_url=f"http://{explorer.host}", headers=headers, timeout=120) as client:
        return {
            "/payload.json": timed(client.get, ["/payload.json"] * 3),
            "/api/search": timed(lambda text: client.get("/api/search", params={"text": text}), texts),
            "/api/neighbors": timed(
                lambda row: client.get("/api/neighbors", params={"id": f"node-{row:07d}", "k": 10}), rows
            ),
            "/api/filter": timed(lambda where: client.post("/api/filter", json=where), FILTERS),
            "/api/select": timed(lambda where: client.post("/api/select", json=where), [*FILTERS, LASSO]),
            "/api/export, all rows, until the first part": {
                format: first_part(client, {"where": {}, "format": format}) for format in ("csv", "parquet")
            },
            f"/api/export, {EXPORTED:,} rows": timed(
                lambda format: client.post("/api/export", json={"rows": list(range(EXPORTED)), "format": format}),
                ["csv", "parquet"],
            ),
        }


def measure(n: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(Path(folder) / "run", n)
        load_before, started = system_load(), time.perf_counter()
        with explorer_process(run) as explorer:
            listening = time.perf_counter() - started
            with explorer_process(make_run(Path(folder) / "small", N_SMALL)) as small:
                views = first_views(explorer, small)
            answers = requests(explorer, n)
            pid = explorer.process.pid
            memory = {name: process_memory(pid, kind) for name, kind in (("now", "VmRSS"), ("peak", "VmHWM"))}
    return {
        "nodes": n, "width": WIDTH, "edges": n * MEAN_DEGREE // 2,
        "server_listens_s": round(listening, 2),
        "nodes_of_small_run": N_SMALL,
        **views,
        "requests": answers,
        "memory_mib": memory,
        "system_load": {"before": load_before, "after": system_load()},
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, default=RESULTS / "explorer-million.json")
    given = parser.parse_args()
    answer = measure(given.nodes)
    command = f"python -m benchmarks.explorer_million --nodes {given.nodes}"
    text = json.dumps({"command": command, "environment": current_environment(torch.device("cpu")), **answer}, indent=1)
    given.out.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
