"""Two commands on one run at the same time: one is stopped before a file operation, the other runs to its end, and the
first one continues. Prints one line of JSON per pair.

python -m tests.faults.pairs [--points N] [--only FIRST/SECOND] [--unlocked]     # stops at N places

Afterwards the folder must be what the two leave one after the other, or what one of them leaves if the other was
refused, with one sentence. A reader must never be refused because of a writer, and change nothing. With --unlocked the
lock is one of a file system without locks, to see that this campaign notices.
"""

import argparse
import contextlib
import errno
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.faults.commands import FIRST, FIT, SECOND
from tests.faults.layer import Layer
from tests.faults.states import contents
from tests.faults.worker import Campaign, in_child, prepare

RUN = "{folder}/run"
FIT_HERE = ["fit", "{source}", "--out", RUN, *FIT]
WRITERS = {  # of a run that has clusters
    "fit --force": [*FIT_HERE, *SECOND, "--force"],
    "fit other --force": ["fit", "{other}", "--out", RUN, *FIT, *FIRST, "--force"],
    "evaluate": ["evaluate", RUN, "--device", "cpu", "--quiet"],
    "cluster": ["cluster", RUN, "-k", "3"],
    "add": ["add", RUN, "{other}", "--device", "cpu", "--quiet", "--force"],
    "report": ["report", RUN, "--map", "pca", "--quiet"],
    "quality": ["quality", RUN, "--quick", "--quiet", "--device", "cpu"],
    "embed": ["embed", RUN, "--format", "csv"],
    "export": ["export", RUN],
    "save force": ["save", "force"],
}
RESUME = ["fit", "{source}", "--out", RUN, "--resume", "--quiet", "--device", "cpu"]
OTHERS = {  # from another start than a run with clusters
    ("unfinished", "resume", "resume"): (RESUME, RESUME),
    ("unfinished", "resume", "fit --force"): (RESUME, WRITERS["fit --force"]),
    ("unfinished", "fit --force", "resume"): (WRITERS["fit --force"], RESUME),
    ("empty", "fit", "fit"): ([*FIT_HERE, *FIRST], [*FIT_HERE, *SECOND]),
}
SEARCH = ["search", RUN, "n1"]
SAMPLE = ("fit --force/fit other --force", "evaluate/fit --force", "resume/resume", "evaluate/search")


def pairs():
    """Each pair of writers, and each writer with a reader: (start, names, command lines)."""
    for first, words in WRITERS.items():
        for second, others in WRITERS.items():
            yield "clustered", f"{first}/{second}", words, others
        yield "clustered", f"{first}/search", words, SEARCH
    for (start, first, second), (words, others) in OTHERS.items():
        yield start, f"{first}/{second}", words, others


class Pausing(Layer):
    """Before an operation, waits until the other command has ended."""

    def __init__(self, folder, at, said, heard):
        super().__init__(folder)
        self.place, self.said, self.heard = at, said, heard

    def reaches(self, kind, path):
        super().reaches(kind, path)
        if len(self.points) == self.place:
            self.place = None
            os.write(self.said, b"!")
            os.read(self.heard, 1)
        return False


class Pairs(Campaign):
    def __init__(self, folder):
        super().__init__(folder)
        import afgrl.runs.lock

        afgrl.runs.lock.PATIENCE = 0.0
        self.alone = {}
        unfinished = self.starts / "unfinished"
        unfinished.mkdir()
        case = self.begin_at("empty")
        code, output = in_child(lambda: self.stop_early(case), self.folder / "output")
        assert code == 2, output
        shutil.copytree(case, unfinished, dirs_exist_ok=True)
        assert (unfinished / "run" / "checkpoint.pt").is_file()

    def stop_early(self, folder):
        """A training that is stopped when it has saved its first checkpoint."""
        from afgrl.runs.folder import Run

        save = Run.save_checkpoint

        def save_and_stop(run, checkpoint):
            save(run, checkpoint)
            raise SystemExit("stopped")

        Run.save_checkpoint = save_and_stop
        self.execute([*FIT_HERE, *FIRST], folder)

    def begin_at(self, start):
        self.n_cases += 1
        folder = self.folder / "case"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.starts / start, folder)
        return folder

    def one_after_the_other(self, start, *commands):
        """What commands leave that do not meet; each may be refused."""
        key = (start, *map(tuple, commands))
        if key not in self.alone:
            folder = self.begin_at(start)
            for words in commands:
                code, output = in_child(lambda words=words: self.execute(words, folder), self.folder / "output")
                assert code in (0, 2), (words, output)
            self.alone[key] = contents(folder)
        return self.alone[key]

    def number_of_operations(self, start, words):
        folder, log = self.begin_at(start), self.folder / "points.json"
        layer = Layer(folder)

        def counted():
            layer.install()
            try:
                self.execute(words, folder)
            finally:
                os.write(os.open(log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC), json.dumps(len(layer.points)).encode())

        code, output = in_child(counted, self.folder / "output")
        assert code == 0, (words, output)
        return json.loads(log.read_text())

    def meet(self, start, name, first, second, n_points):
        """The counts of a pair, and what went wrong."""
        total, counts, problems = self.number_of_operations(start, first), Counter(), []
        for place in {1 + total * i // n_points for i in range(n_points)}:
            problem, ends = self.case_of_two(start, first, second, place, reader=second is SEARCH)
            counts[ends] += 1
            if problem:
                problems.append(f"second command before operation {place} of {total}: {problem}")
        return {"pair": name, **counts, "problems": problems}

    def case_of_two(self, start, first, second, place, *, reader):
        folder = self.begin_at(start)
        code, output, other_code, other_output = self.beside(folder, first, second, place)
        found = contents(folder)  # before the folder is used to find out what is allowed
        for answer, text in ((code, output), (other_code, other_output)):
            if answer not in (0, 2) or "Traceback" in text or (answer and not text.strip()):
                return f"it ended with {answer}: {text[-1500:]}", "failure"
        refused = "is being written by" in other_output
        ends = "first refused" if code else "second refused" if other_code else "both succeeded"
        if reader and refused:
            return f"a reader was refused: {other_output}", ends
        both = [(first, second), (second, first)]
        allowed = [self.one_after_the_other(start, *order) for order in ([(second,)] if code else both)]
        if other_code:
            allowed = [] if code else [self.one_after_the_other(start, first)]
        if found not in allowed:
            nearest = min(allowed, key=lambda one: len(found.items() ^ one.items()), default={})
            wrong = sorted(name for name in found.keys() | nearest.keys() if found.get(name) != nearest.get(name))
            return f"{ends}, and the folder is of both: {wrong}; {output[-300:]} {other_output[-300:]}", ends
        return None, ends

    def beside(self, folder, first, second, place):
        """The exit codes and outputs of two commands of which the second runs while the first is stopped."""
        said, says = os.pipe()
        heard, tells = os.pipe()
        process = os.fork()
        if process == 0:
            os.close(said)
            os.close(tells)
            layer = Pausing(folder, place, says, heard)
            output = self.folder / "first output"
            code, text = in_child(lambda: (layer.install(), self.execute(first, folder)), output)
            (self.folder / "first.json").write_text(json.dumps([code, text]))
            os._exit(0)
        os.close(says)
        os.close(heard)
        os.read(said, 1)  # it is stopped, or has ended
        other = in_child(lambda: self.execute(second, folder), self.folder / "second output")
        with contextlib.suppress(BrokenPipeError):  # it had ended
            os.write(tells, b"!")
        os.close(said)
        os.close(tells)
        os.waitpid(process, 0)
        return (*json.loads((self.folder / "first.json").read_text()), *other)


def no_lock(descriptor):
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=4)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--unlocked", action="store_true")
    chosen = parser.parse_args()
    prepare()
    if chosen.unlocked:
        import afgrl.runs.lock

        afgrl.runs.lock._lock_file = no_lock
    with tempfile.TemporaryDirectory() as folder:
        campaign = Pairs(Path(folder))
        for start, name, first, second in pairs():
            if not chosen.only or name in chosen.only:
                started = time.perf_counter()
                answer = campaign.meet(start, name, first, second, chosen.points)
                print(json.dumps(answer | {"seconds": round(time.perf_counter() - started, 1)}), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
