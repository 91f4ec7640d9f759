"""Threads of numerical libraries: they do not spin while they wait, and there are not more than a container allows."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from afgrl.ops import threads
from afgrl.ops.threads import WAITING, configure_threads, warn_if_slow
from tests.control_groups import process_in_group


def test_waiting_threads_sleep() -> None:
    environment: dict[str, str] = {}
    configure_threads(environment, Path("no such folder"))
    assert environment == {"OMP_WAIT_POLICY": "passive"}


@pytest.mark.parametrize("name", WAITING)
def test_what_the_user_sets_about_waiting_stays(name: str) -> None:
    environment = {name: "17"}
    configure_threads(environment, Path("no such folder"))
    assert environment == {name: "17"}


@pytest.mark.parametrize(("limit", "threads"), [("150000 100000", "1"), ("50000 100000", "1"), ("max 100000", "9")])
def test_a_container_limits_the_number_of_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, threads: str | None
) -> None:
    monkeypatch.setattr("afgrl.ops.threads._visible_cores", lambda: 64)
    process, group = process_in_group(tmp_path, 2, "/service", "cpu")
    (group / "cpu.max").write_text(limit + "\n")
    (group.parent / "cpu.max").write_text("900000 100000\n")
    environment: dict[str, str] = {}
    configure_threads(environment, process)
    assert environment.get("OMP_NUM_THREADS") == threads


@pytest.mark.parametrize(("quota", "threads"), [("300000\n", "3"), ("-1\n", None), ("?", None)])
def test_a_container_of_the_first_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, threads: str | None
) -> None:
    monkeypatch.setattr("afgrl.ops.threads._visible_cores", lambda: 64)
    process, group = process_in_group(tmp_path, 1, "/service", "cpu")
    (group / "cpu.cfs_quota_us").write_text(quota)
    (group / "cpu.cfs_period_us").write_text("100000\n")
    environment: dict[str, str] = {}
    configure_threads(environment, process)
    assert environment.get("OMP_NUM_THREADS") == threads


def test_a_limit_above_the_cores_and_a_number_of_the_user_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, group = process_in_group(tmp_path, 2)
    (group / "cpu.max").write_text("400000 100000\n")
    monkeypatch.setattr("afgrl.ops.threads._visible_cores", lambda: 4)
    environment: dict[str, str] = {}
    configure_threads(environment, process)
    assert "OMP_NUM_THREADS" not in environment
    monkeypatch.setattr("afgrl.ops.threads._visible_cores", lambda: 64)
    environment["OMP_NUM_THREADS"] = "7"
    configure_threads(environment, process)
    assert environment["OMP_NUM_THREADS"] == "7"


@pytest.mark.skipif(sys.platform != "linux", reason="libgomp prints its settings")
@pytest.mark.parametrize("words", [
    ["-m", "afgrl", "check", "demo", "--json"],
    ["-c", "import afgrl; import sklearn.cluster; afgrl.check('demo')"],
])  # fmt: skip
def test_no_openmp_library_spins(words: list[str]) -> None:
    """PyTorch and scikit-learn each bring their own; both print when they load how long a waiting thread spins."""
    inherited = {name: value for name, value in os.environ.items() if name not in WAITING}
    done = subprocess.run(
        [sys.executable, *words],
        capture_output=True, text=True, env=inherited | {"OMP_DISPLAY_ENV": "verbose"}, check=True,
    )  # fmt: skip
    rounds = [line.split("=")[1].strip() for line in done.stderr.splitlines() if "GOMP_SPINCOUNT" in line]
    assert len(rounds) >= 2
    assert set(rounds) == {"'0'"}


@pytest.mark.parametrize(
    ("first", "environment", "late"),
    [("torch", {}, True), ("json", {}, False), ("torch", {"OMP_WAIT_POLICY": "active"}, False)],
)
def test_pytorch_that_was_imported_before_is_noticed(first: str, environment: dict[str, str], late: bool) -> None:
    inherited = {name: value for name, value in os.environ.items() if name not in WAITING}
    code = f"import {first}, afgrl; print(afgrl.ops.threads.came_too_late)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=inherited | environment, check=True
    )
    assert done.stdout.strip() == str(late)


def test_a_busy_machine_on_which_threads_spin_is_mentioned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "came_too_late", True)
    monkeypatch.setattr(threads, "_visible_cores", lambda: 4)
    monkeypatch.setattr(os, "getloadavg", lambda: (4.5, 9.0, 9.0))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warn_if_slow()  # the load may be our own
        assert not found
        monkeypatch.setattr(os, "getloadavg", lambda: (5.0, 0.0, 0.0))
        warn_if_slow()
        warn_if_slow()
    assert [str(warning.message).split(":")[1] for warning in found] == [
        " import afgrl before torch, or set OMP_WAIT_POLICY=passive."
    ]
