import time

from benchmarks import explorer_load
from tests.explore.server import client_of


def test_many_requests_beside_slow_clients():
    """A short `python -m benchmarks.explorer_load`, at a rate that a busy machine reaches too."""
    measured = explorer_load.measure(3.0, rate=100.0, n_slow=60)
    assert measured["statuses"] == {"200": 300}
    assert measured["connections"]["least"] >= 60
    memory = measured["memory_mib"]
    assert memory["peak"] - memory["before"] < 50
    assert measured["stop"]["exit_code"] == 0
    assert measured["stop"]["message"] == "The explorer has stopped."


def test_an_answer_does_not_wait_for_the_client(address):
    """Header and body are two packets; without TCP_NODELAY the second waits 40 ms until the first is acknowledged."""
    seconds = []
    with client_of(address) as client:
        for _ in range(60):
            started = time.perf_counter()
            client.get("/api/search?text=a")
            seconds.append(time.perf_counter() - started)
    # The fastest, as a busy machine delays some; after the first packets, which are acknowledged at once.
    assert min(seconds[20:]) < 0.03
