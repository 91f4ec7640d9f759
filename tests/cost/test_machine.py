"""Clocks, with a fake one."""

import pytest
import torch

from afgrl.cost import machine

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("budget", "n_measured"),
    [
        (0.0, machine.MIN_CALLS),
        (1.0, 10),  # most calls take .1 s
        (1e6, machine.MAX_CALLS),
    ],
)
def test_the_median_of_as_many_calls_as_fit_into_the_budget(monkeypatch, budget, n_measured):
    now, calls = [0.0], []
    monkeypatch.setattr(machine.time, "perf_counter", lambda: now[0])

    def call():
        calls.append(now[0])
        now[0] += 5.0 if len(calls) == 1 else 1.0 if len(calls) % 3 == 0 else 0.1  # the first call compiles

    assert machine.median_seconds(call, CPU, budget) == pytest.approx(0.1)
    warm_up = 2 if budget < 1e6 else 1 + machine.WARM_UP_CALLS
    assert len(calls) == warm_up + n_measured
