"""Mutated inputs of every format, until the time is over. Each must give a result or one sentence.

python -m tests.fuzz --seconds 600 --first 1000      # seeds 1000, 1001, …; failures are saved in tests/fuzz/found
python -m tests.fuzz --handmade                      # every input of tests/fuzz/handmade
python -m tests.fuzz --written --seconds 600         # valid tables, of which all edges must be read
"""

import argparse
import collections
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.fuzz.corpus import save_case
from tests.fuzz.handmade import catalog
from tests.fuzz.handmade.outcome import LEFT_OUT
from tests.fuzz.mutations import mutated
from tests.fuzz.worker import HANDMADE, WRITTEN

FOUND = Path(__file__).parent / "found"
COMMAND = ("-m", "tests.fuzz.worker")
HANG = 60  # seconds
PASSED = ("read", "one sentence", "left out: an option of a later version")


class Worker:
    """A process that is started again after it crashed or was killed for hanging."""

    def __init__(self) -> None:
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen([sys.executable, *COMMAND], env=environment, text=True, **pipes)
        self.answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.answers.put(line)
        self.answers.put("")

    def answer(self, request: str, timeout: float) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stderr is not None
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        try:
            line = self.answers.get(timeout=timeout)
        except queue.Empty:
            self.process.kill()
            return {"input": request, "failure": f"hang of more than {HANG} s", "sentence": "", "format": ""}
        if not line:
            code = self.process.wait()
            end = self.process.stderr.read()[-1500:]
            return {"input": request, "failure": f"the process ended with {code}", "sentence": end, "format": ""}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


def outcomes(requests: Iterator[str]) -> Iterator[dict[str, Any]]:
    """The outcome of each seed or saved input."""
    worker, is_new = Worker(), True
    try:
        for request in requests:
            answer = worker.answer(request, HANG * (2 if is_new else 1))  # a new process imports PyTorch first
            is_new = worker.process.poll() is not None
            if is_new:
                worker.close()
                worker = Worker()
            yield answer
    finally:
        worker.close()


def seeds(first: int, seconds: float, fewest: int = 0) -> Iterator[str]:
    """Seeds until the time is over, but at least ``fewest``."""
    start = time.perf_counter()
    seed = first
    while time.perf_counter() - start < seconds or seed - first < fewest:
        yield str(seed)
        seed += 1


def try_handmade() -> bool:
    """Whether a hand-made input failed; prints the counts of the outcomes, and what failed."""
    counts: collections.Counter[str] = collections.Counter()
    for answer in outcomes(HANDMADE + name for name in catalog()):
        failure = answer["failure"]
        if failure.startswith(LEFT_OUT):
            counts["left out: an option of a later version"] += 1
            continue
        counts[_kind(failure) if failure else "one sentence" if answer["sentence"] else "read"] += 1
        if failure:
            print(answer["input"], failure, answer["sentence"], "", sep="\n", flush=True)
    print(f"{counts.total():,} hand-made inputs: " + ", ".join(f"{number:,} {name}" for name, number in counts.items()))
    return counts.total() > sum(counts[name] for name in PASSED)


def _kind(failure: str) -> str:
    kinds = ("traceback", "hang", "the process ended", "exit code", "took", "left", "not one sentence", "wrong")
    return "failed: " + next(kind for kind in kinds if failure.startswith(kind))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--inputs", type=int, help="this many inputs instead of --seconds")
    parser.add_argument("--handmade", action="store_true", help="the catalog of hand-made inputs instead")
    parser.add_argument("--written", action="store_true", help="valid tables instead, all edges of which must be read")
    given = parser.parse_args()
    if given.handmade:
        sys.exit(try_handmade())
    chosen = seeds(given.first, 0 if given.inputs else given.seconds, given.inputs or 0)
    if given.written:
        chosen = (WRITTEN + seed for seed in chosen)
    counts: collections.Counter[str] = collections.Counter()
    for answer in outcomes(chosen):
        counts["failed" if answer["failure"] else "one sentence" if answer["sentence"] else "read"] += 1
        if answer["failure"]:
            if not given.written:
                save_case(mutated(int(answer["input"]))[1], FOUND / answer["input"])
            print(answer["input"], answer["format"], answer["failure"], answer["sentence"], sep="\n", flush=True)
    print(f"{counts.total():,} inputs: " + ", ".join(f"{number:,} {name}" for name, number in counts.items()))
    sys.exit(bool(counts["failed"]))


if __name__ == "__main__":
    main()
