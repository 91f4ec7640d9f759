"""Threads of the command line: they do not spin while they wait, and there are not more than a container allows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from afgrl.cli.threads import WAITING, configure_threads


def test_waiting_threads_sleep() -> None:
    environment: dict[str, str] = {}
    configure_threads(environment, Path("no such folder"))
    assert environment == {"OMP_WAIT_POLICY": "passive"}


@pytest.mark.parametrize("name", WAITING)
def test_what_the_user_sets_about_waiting_stays(name: str) -> None:
    environment = {name: "17"}
    configure_threads(environment, Path("no such folder"))
    assert environment == {name: "17"}


@pytest.mark.parametrize(("limit", "threads"), [("150000 100000", "1"), ("50000 100000", "1"), ("max 100000", None)])
def test_a_container_limits_the_number_of_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, threads: str | None
) -> None:
    monkeypatch.setattr("afgrl.cli.threads._visible_cores", lambda: 64)
    (tmp_path / "cpu.max").write_text(limit + "\n")
    environment: dict[str, str] = {}
    configure_threads(environment, tmp_path)
    assert environment.get("OMP_NUM_THREADS") == threads


@pytest.mark.parametrize(("quota", "threads"), [("300000\n", "3"), ("-1\n", None), ("?", None)])
def test_a_container_of_the_first_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, threads: str | None
) -> None:
    monkeypatch.setattr("afgrl.cli.threads._visible_cores", lambda: 64)
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(quota)
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    environment: dict[str, str] = {}
    configure_threads(environment, tmp_path)
    assert environment.get("OMP_NUM_THREADS") == threads


def test_a_limit_above_the_cores_and_a_number_of_the_user_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpu.max").write_text("400000 100000\n")
    monkeypatch.setattr("afgrl.cli.threads._visible_cores", lambda: 4)
    environment: dict[str, str] = {}
    configure_threads(environment, tmp_path)
    assert "OMP_NUM_THREADS" not in environment
    monkeypatch.setattr("afgrl.cli.threads._visible_cores", lambda: 64)
    environment["OMP_NUM_THREADS"] = "7"
    configure_threads(environment, tmp_path)
    assert environment["OMP_NUM_THREADS"] == "7"


@pytest.mark.skipif(sys.platform != "linux", reason="libgomp prints its settings")
def test_no_openmp_library_of_a_command_spins() -> None:
    """PyTorch and scikit-learn each bring their own; both print when they load how long a waiting thread spins."""
    inherited = {name: value for name, value in os.environ.items() if name not in WAITING}
    done = subprocess.run(
        [sys.executable, "-m", "afgrl", "check", "demo", "--json"],
        capture_output=True, text=True, env=inherited | {"OMP_DISPLAY_ENV": "verbose"}, check=True,
    )  # fmt: skip
    rounds = [line.split("=")[1].strip() for line in done.stderr.splitlines() if "GOMP_SPINCOUNT" in line]
    assert len(rounds) >= 2
    assert set(rounds) == {"'0'"}
