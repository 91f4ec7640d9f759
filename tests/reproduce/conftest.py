from dataclasses import replace

import pytest

from afgrl.data import load
from afgrl.reproduce import scope
from afgrl.reproduce.scope import Scope


@pytest.fixture(scope="session")
def demo():
    return load("demo")


@pytest.fixture
def available(monkeypatch, demo):
    """Makes datasets available under their names; they contain the demo graph."""

    def make_available(*names):
        monkeypatch.setattr(Scope, "available", lambda self, wanted: [name for name in names if name in self.datasets])

    monkeypatch.setattr(scope, "loaded", lambda source, *rest: (replace(demo, name=source), ""))
    scope._resolved.cache_clear()
    yield make_available
    scope._resolved.cache_clear()
