"""A real browser for the pages, and what a user does in it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

FLAGS = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]  # WebGL on the CPU
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def chromium():
    """Closed after each module: its event loop would disturb tests that have their own."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    program = next((found for found in map(shutil.which, PROGRAMS) if found), None)
    if program is None:
        pytest.skip(f"none of the browsers {', '.join(PROGRAMS)} is installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium):
    """Opens a page and waits until it is drawn. The test fails if a page has errors or contacts another host."""
    contexts, problems = [], []

    def open_page(address, *, size=WIDE, dark=False, touch=False):
        context = chromium.new_context(viewport=size, color_scheme="dark" if dark else "light", has_touch=touch)
        contexts.append(context)
        page = context.new_page()
        host = address.split("/")[2]
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: (problems.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: problems.append(request.url) if is_foreign(request.url, host) else None)
        page.goto(address)
        page.wait_for_selector("html[data-ready]", timeout=60_000)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not problems, problems


def is_foreign(address, host):
    return not address.startswith(("data:", "blob:", "file:")) and address.split("/")[2] != host


def position_of(page, node_id, plot=0):
    """The position of a node on the screen."""
    return page.evaluate(
        """([id, plot]) => {
          const { run, holder } = page.plots[plot];
          const { xaxis, yaxis, _size } = holder._fullLayout;
          const box = holder.getBoundingClientRect(), row = rowOf(run, id);
          return [box.left + _size.l + xaxis.d2p(run.x[row]), box.top + _size.t + yaxis.d2p(run.y[row])];
        }""",
        [node_id, plot],
    )


def click_node(page, node_id, plot=0):
    """Moves the mouse to a node, waits for the tooltip, and clicks."""
    x, y = position_of(page, node_id, plot)
    page.mouse.move(x - 40, y - 40)
    page.mouse.move(x, y, steps=3)
    page.wait_for_function(
        "id => !byId('tooltip').hidden"
        " && byId('tooltip').firstChild.textContent === truncate(labelOfId(page.runs, id))",
        arg=node_id,
    )
    page.mouse.click(x, y)
    page.wait_for_function("id => page.matches.some(Boolean) && page.chosen === id", arg=node_id)


def search_node(page, node_id):
    """Chooses a node with the search box; leaves no pointer and no caret on the page."""
    page.fill("#search-box", node_id)
    page.press("#search-box", "Enter")
    page.wait_for_function("id => page.chosen === id && page.matches.some(Boolean)", arg=node_id)
    page.fill("#search-box", "")
    page.evaluate("() => document.activeElement.blur()")
    page.wait_for_timeout(500)


def n_drawn(page, plot=0):
    return page.evaluate("plot => page.plots[plot].holder.data[0].x.length", plot)


def wait_until_drawn(page, n):
    page.wait_for_function("n => page.plots[0].holder.data[0].x.length === n", arg=n)


def fits_screen(page):
    """No part of the page is wider than the screen."""
    return page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def wants_screenshots():
    return bool(os.environ.get("AFGRL_SCREENSHOTS"))


def screenshot(page, name):
    """Saves a picture for the documentation to the folder AFGRL_SCREENSHOTS."""
    page.screenshot(path=str(Path(os.environ["AFGRL_SCREENSHOTS"]) / name))
