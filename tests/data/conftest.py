import os
import urllib.error
import urllib.request

import pytest

from afgrl.data import benchmarks

REAL_DATA = os.environ.get("AFGRL_DATA")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """No test reads or writes the user's own cache, data folder or network."""
    monkeypatch.setenv("AFGRL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("AFGRL_DATA", raising=False)
    monkeypatch.setattr("urllib.request.urlopen", _no_network)
    return tmp_path / "cache"


def _no_network(*arguments, **settings):
    raise urllib.error.URLError(OSError(101, "Network is unreachable"))


@pytest.fixture
def any_counts(monkeypatch):
    """Small files stand for the real ones, so their sizes are not the paper's."""
    monkeypatch.setattr(benchmarks, "check_counts", lambda *arguments: None)


@pytest.fixture
def no_pyg(monkeypatch):
    """Call it to make any further reading of raw files fail."""

    def refuse(*arguments):
        raise AssertionError("the raw files were read again")

    return lambda: monkeypatch.setattr(benchmarks, "_read_with_pyg", refuse)


@pytest.fixture(scope="session")
def real_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("real-cache")


@pytest.fixture
def real_data(monkeypatch, real_cache):
    if not REAL_DATA:
        pytest.skip("AFGRL_DATA is not set")
    monkeypatch.setenv("AFGRL_DATA", REAL_DATA)
    monkeypatch.setenv("AFGRL_CACHE", str(real_cache))
    return REAL_DATA
