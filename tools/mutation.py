"""Measure how many mutants the tests kill, part by part, on a seeded sample.

A mutant is a copy of a source file with one small change. The tests kill it if one of them fails or if they run out of
time. Mutants are drawn here, with the operators of cosmic-ray and two of our own, and run in copies of the tree:

    pip install cosmic-ray
    python -m tools.mutation draw --count 100 --out mutants.json
    python -m tools.mutation run mutants.json --workers 2 --out results/mutation.json

``PARTS`` maps a part to its files (globs; a leading "!" excludes files) and to its tests. ``--count`` places are drawn
per part, and one mutant of each, so that a place with many possible changes counts once. Our own operators drop a
statement that is a call, an augmented assignment or a raise; and drop a call whose result has the type of its input
(``PRESERVING``), so that ``x.clamp(min=1)`` becomes ``x``.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from tools.mutation_parts import PARTS

ROOT = Path(__file__).parents[1]


def draw(count: int, seed: int, out: Path) -> None:
    """Write the drawn mutants with their complete sources, so that running them does not need cosmic-ray."""
    from tools.mutants import draw_mutants  # needs cosmic-ray

    drawn: dict[str, Any] = {}
    for part in PARTS:
        mutants, n_places = draw_mutants(ROOT, part, count, seed)
        entries = [{**mutant._asdict(), "source": mutant.source(ROOT)} for mutant in mutants]
        drawn[part] = {"places": n_places, "seed": seed, "mutants": entries}
    out.write_text(json.dumps(drawn) + "\n", encoding="utf-8")


def run(mutants_file: Path, workers: int, timeout: float, budget: float, out: Path) -> None:
    """Run the tests of each mutant's part in a copy of the tree per worker, until the budget of seconds is spent."""
    drawn = json.loads(mutants_file.read_text(encoding="utf-8"))
    deadline, report = time.monotonic() + budget, dict[str, dict[str, Any]]()
    jobs = [(part, mutant) for part in drawn for mutant in drawn[part]["mutants"]]
    random.Random(0).shuffle(jobs)  # so that a spent budget leaves a sample of every part
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(workers) as pool:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(workers):
            trees.put(_copy(Path(folder) / str(number)))

        def outcome(job: tuple[str, dict[str, Any]]) -> tuple[str, dict[str, Any], str] | None:
            if time.monotonic() > deadline:
                return None
            tree = trees.get()
            try:
                return *job, _run_mutant(tree, *job, timeout)
            finally:
                trees.put(tree)

        finished: list[tuple[str, dict[str, Any], str]] = []
        for future in as_completed([pool.submit(outcome, job) for job in jobs]):
            if result := future.result():
                finished.append(result)
                report = {part: _summary(drawn[part], [own for own in finished if own[0] == part]) for part in drawn}
                out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for part, summary in report.items():
        sys.stdout.write(f"{part}: {summary['killed']} of {summary['sampled']} killed, {summary['score']:.1%}\n")


def _copy(tree: Path) -> Path:
    for name in ("src", "tests", "tools", "benchmarks", "docs", "pyproject.toml"):
        source = ROOT / name
        (shutil.copytree if source.is_dir() else _copy_file)(source, tree / name)
    return tree


def _copy_file(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _run_mutant(tree: Path, part: str, mutant: dict[str, Any], timeout: float) -> str:
    """``killed``, ``timeout`` or ``survived``; tests named after the file run first."""
    file = tree / mutant["file"]
    original = file.read_text(encoding="utf-8")
    names = (file.stem, file.parent.name)
    tests = sorted(
        {test for path in PARTS[part]["tests"] for test in ((tree / path).rglob("test_*.py") or [tree / path])}
        | {tree / path for path in PARTS[part]["tests"] if path.endswith(".py")},
        key=lambda path: (not any(name in path.stem for name in names), str(path)),
    )
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([f"{tree}/src", str(tree), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *map(str, tests)]
    try:
        file.write_text(mutant["source"], encoding="utf-8")
        answer = subprocess.run(command, cwd=tree, env=environment, capture_output=True, timeout=timeout)
        return "killed" if answer.returncode else "survived"
    except subprocess.TimeoutExpired:
        return "timeout"
    finally:
        file.write_text(original, encoding="utf-8")


def _summary(drawn: dict[str, Any], finished: list[tuple[str, dict[str, Any], str]]) -> dict[str, Any]:
    outcomes = [outcome for _, _, outcome in finished]
    survivors = [_shown(mutant) for _, mutant, outcome in finished if outcome == "survived"]
    n_killed = len(outcomes) - len(survivors)
    return {
        "places": drawn["places"], "seed": drawn["seed"], "sampled": len(outcomes), "killed": n_killed,
        "timeouts": outcomes.count("timeout"), "score": n_killed / max(1, len(outcomes)), "survivors": survivors,
    }  # fmt: skip


def _shown(mutant: dict[str, Any]) -> dict[str, Any]:
    original = (ROOT / mutant["file"]).read_text(encoding="utf-8")
    lines = difflib.unified_diff(original.splitlines(), mutant["source"].splitlines(), n=0, lineterm="")
    diff = [line for line in lines if not line.startswith(("---", "+++", "@@"))]
    return {"where": f"{mutant['file']}:{mutant['line']}", "operator": mutant["operator"], "diff": diff}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    commands = parser.add_subparsers(dest="command", required=True)
    drawing = commands.add_parser("draw")
    drawing.add_argument("--count", type=int, default=100, help="mutants per part")
    drawing.add_argument("--seed", type=int, default=0)
    drawing.add_argument("--out", type=Path, default=Path("mutants.json"))
    running = commands.add_parser("run")
    running.add_argument("mutants_file", type=Path)
    running.add_argument("--workers", type=int, default=1)
    running.add_argument("--timeout", type=float, default=300.0, help="seconds per mutant")
    running.add_argument("--budget", type=float, default=float("inf"), help="seconds in total")
    running.add_argument("--out", type=Path, default=Path("mutation.json"))
    given = vars(parser.parse_args())
    if given.pop("command") == "draw":
        draw(**given)
    else:
        run(**given)


if __name__ == "__main__":
    main()
