"""A real browser for the pages, and runs to show in it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from afgrl.order import Order
from afgrl.runs import Run

FLAGS = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]  # WebGL by the CPU
WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
GROUPS = ("north", "east", "south", "west")


@pytest.fixture(scope="module")
def chromium():
    """Of the module, since a browser's event loop would stand in the way of other tests'."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next((found for found in map(shutil.which, names) if found), None)
    if program is None:
        pytest.skip(f"there is no browser among {', '.join(names)}")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium):
    """Opens an address, waits until the page is drawn, and in the end asks that it had no errors and asked nobody."""
    contexts, wrong = [], []

    def open_page(address, *, size=WIDE, dark=False, touch=False):
        context = chromium.new_context(viewport=size, color_scheme="dark" if dark else "light", has_touch=touch)
        contexts.append(context)
        page = context.new_page()
        home = address.split("/")[2]
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: (wrong.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: wrong.append(request.url) if elsewhere(request.url, home) else None)
        page.goto(address)
        page.wait_for_selector("html[data-ready]", timeout=60_000)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


def elsewhere(address, home):
    return not address.startswith(("data:", "blob:", "file:")) and address.split("/")[2] != home


def place_of(page, name, which=0):
    """Where the point of an id is on the screen."""
    return page.evaluate(
        """([name, which]) => {
          const { run, holder } = page.maps[which];
          const { xaxis, yaxis, _size } = holder._fullLayout;
          const box = holder.getBoundingClientRect(), row = rowOf(run, name);
          return [box.left + _size.l + xaxis.d2p(run.x[row]), box.top + _size.t + yaxis.d2p(run.y[row])];
        }""",
        [name, which],
    )


def click_node(page, name, which=0):
    """As a hand does it: the pointer comes, rests, and presses."""
    x, y = place_of(page, name, which)
    page.mouse.move(x - 40, y - 40)
    page.mouse.move(x, y, steps=3)
    page.wait_for_function(
        "name => !byId('tip').hidden && byId('tip').firstChild.textContent === brief(name)", arg=name
    )
    page.mouse.click(x, y)
    page.wait_for_function("name => page.found.some(Boolean) && page.selected === name", arg=name)


def choose_node(page, name):
    """By the search box, and without leaving the pointer or the caret anywhere."""
    page.fill("#search-box", name)
    page.press("#search-box", "Enter")
    page.wait_for_function("name => page.selected === name && page.found.some(Boolean)", arg=name)
    page.fill("#search-box", "")
    page.evaluate("() => document.activeElement.blur()")
    page.wait_for_timeout(500)


def fits(page):
    """No part of the page is wider than the screen."""
    return page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def screenshot(page, name):
    """Only where AFGRL_SCREENSHOTS names a folder for it."""
    folder = os.environ.get("AFGRL_SCREENSHOTS")
    if folder:
        page.screenshot(path=str(Path(folder) / name))


def wants_screenshots():
    return bool(os.environ.get("AFGRL_SCREENSHOTS"))


def make_run(path, n=240, *, seed=0, ids=None, columns=None, settings=None, source="letters.csv"):
    """A small run with everything in it, without any training."""
    draw = np.random.default_rng(seed)
    run = Run.create(path)
    group = np.arange(n) % len(GROUPS)
    names = np.array(ids if ids is not None else [f"node-{i:03d}" for i in range(n)], dtype=object)
    vectors = (np.eye(len(GROUPS), 16)[group] + 0.15 * draw.normal(size=(n, 16))).astype(np.float32)
    order = {"source": source, "method": "afgrl", "recipe": "default"}
    run.write_config(order, {"epochs": 30, "seed": seed} | (settings or {}))
    run.save_embedding(names, vectors)
    run.save_data(pa.table({"id": names, **(columns or node_columns(n, group, draw))}), description(n))
    corners = np.array([[-2, 0], [0, 1], [2, 0], [0, -1]])
    run.save_map("tsne", corners[group] + 0.25 * draw.normal(size=(n, 2)))
    for epoch in range(0, 31, 5):
        run.append("history.jsonl", history(epoch))
    run.save_scores(scores(seed))
    run.save_clusters(names, group.astype(np.int32), clusters(names, group))
    return run


def node_columns(n, group, draw):
    return {
        "region": pa.array([GROUPS[own] for own in group]),
        "city": pa.array([None if i % 7 == 0 else f"city {i % 20}" for i in range(n)]),
        "weight": pa.array([None if i % 11 == 0 else float(value) for i, value in enumerate(draw.normal(70, 9, n))]),
        "joined": pa.array(draw.integers(1990, 2025, n)),
    }


def description(n):
    notes = [
        {"kind": "understood", "text": "Read from letters.csv."},
        {"kind": "repaired", "text": "3 edges that were there twice are there once."},
        {"kind": "suspicious", "text": "5 nodes look alike in every feature."},
    ]
    counts = {"nodes": n, "edges": 3 * n, "features": 12, "isolated": 2}
    return {"name": "letters", **counts, "label": "region", "notes": notes}


def history(epoch):
    fallen = float(np.exp(-epoch / 8))
    shares = {"pairs": 900, "local": 0.4 + 0.1 * fallen, "global": 0.95}
    return {"epoch": epoch, "loss": 2 * fallen + 0.05, **shares, "spread": 0.6, "rank": 7.5, "drift": 1 - fallen}


def scores(seed):
    def leaf(mean, count):
        return {"mean": mean, "std": 0.4, "values": [mean] * count}

    def parts(lift):
        return {
            "classification": {"accuracy": leaf(80 + lift, 20)},
            "clustering": {name: leaf(0.7 + lift / 100, 10) for name in ("nmi", "homogeneity", "ari")},
            "similarity": {name: leaf(0.8 + lift / 100, 1) for name in ("sim@5", "sim@10")},
        }

    return {
        "dataset": "letters", "method": "afgrl", "recipe": "default", "seed": seed, "splits": "20 random 10/10/80",
        "label-free": parts(9 + seed), "paper": None,
        "baselines": {"random": parts(5), "hops": parts(4), "raw": parts(1)},
    }  # fmt: skip


def clusters(names, group):
    each = [
        {
            "cluster": number,
            "size": int((group == number).sum()),
            "features": [{"name": f"word {number}", "here": 0.9, "elsewhere": 0.1}],
            "closest": names[group == number][:5].tolist(),
        }
        for number in range(len(GROUPS))
    ]
    tried = [{"k": k, "value": 1 / k} for k in (2, 3, 4)]
    return {"k": len(GROUPS), "criterion": "silhouette", "tried": tried, "clusters": each}


def demo_run(folder):
    """The run that the pictures in the documentation show: `afgrl demo` with clusters."""
    from afgrl import experiment
    from afgrl.clusters import cluster_run

    order = Order("demo")
    run = experiment.fit(order, {}, folder / "digits", torch.device("cpu"))
    experiment.evaluate(run.path, torch.device("cpu"))
    pixels = [f"pixel {place // 8 + 1}, {place % 8 + 1}" for place in range(64)]
    cluster_run(run, features=order.load().graph.x, names=pixels)
    return run
