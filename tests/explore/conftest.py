import pytest

from tests.sample_runs import make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("explore") / "letters")


@pytest.fixture(scope="module")
def address(run):
    from tests.explore.server import running_explorer  # skips the module if a package is missing

    with running_explorer(run) as address:
        yield address
