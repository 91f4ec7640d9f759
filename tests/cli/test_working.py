"""What long commands show while they work."""

import io

import pytest
from rich.console import Console

from afgrl.cli import app


@pytest.mark.parametrize(
    ("terminal", "quiet", "shown"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_a_terminal_shows_what_is_done_and_for_how_long(monkeypatch, terminal, quiet, shown):
    text = io.StringIO()
    monkeypatch.setattr(app, "stderr", Console(file=text, force_terminal=terminal))
    with app.working("Clustering", quiet=quiet):
        pass
    assert ("Clustering" in text.getvalue()) == ("0:00:0" in text.getvalue()) == shown


def test_messages_are_shown_beside_it(monkeypatch):
    text = io.StringIO()
    monkeypatch.setattr(app, "stderr", Console(file=text, force_terminal=True))
    with app.working("Clustering"):
        app.stderr.print("a message")
    assert "a message\n" in text.getvalue()
