import os
import urllib.error
import urllib.request

import pytest

from afgrl.data.benchmarks import loading, pyg_reader

REAL_DATA = os.environ.get("AFGRL_DATA")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Tests use neither the user's cache and data folder nor the network."""
    monkeypatch.setenv("AFGRL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("AFGRL_DATA", raising=False)
    monkeypatch.setattr("urllib.request.urlopen", _no_network)
    return tmp_path / "cache"


def _no_network(*arguments, **settings):
    raise urllib.error.URLError(OSError(101, "Network is unreachable"))


@pytest.fixture
def any_counts(monkeypatch):
    """Accept small files in place of the real ones."""
    monkeypatch.setattr(loading, "check_counts", lambda *arguments: None)


@pytest.fixture
def no_pyg(monkeypatch):
    """A function after whose call reading raw files fails."""

    def refuse(*arguments):
        raise AssertionError("the raw files were read again")

    return lambda: monkeypatch.setattr(pyg_reader, "_read_with_pyg", refuse)


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
