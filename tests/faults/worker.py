"""Disturbs each file operation of each command, and looks at what is left. Prints one line of JSON per command.

python -m tests.faults.worker [--every N] [--only COMMAND]     # by default at every operation

Each case is a fork of this process, which has imported everything once: a case takes a fraction of a second.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

import torch

from afgrl.errors import AfgrlError
from tests.faults.commands import commands, write_source, write_starts
from tests.faults.layer import EIO, ENOSPC, KILL, Layer
from tests.faults.states import LOGS, USERS, contents, state_of

KILLED, LOCK = -9, ".run.lock"
TEMPORARY = re.compile(r"\.([^/]+)\.\d+$")


class Campaign:
    def __init__(self, folder):
        self.folder = folder
        self.source = write_source(folder / "source", 15)
        self.other = write_source(folder / "other", 18, seed=1)
        self.starts = folder / "starts"
        self.starts.mkdir()
        write_starts(self.starts, self.source, self.other, self.must_run)
        self.estimator = fitted_estimator(self.other)
        convert_once(self.starts / "clustered" / "run")
        self.n_cases = 0

    def must_run(self, words):
        code, output = in_child(lambda: run_words(words), self.folder / "output")
        assert code == 0, (words, output)

    def disturb(self, command, every):
        """The counts of a command's cases, and what went wrong."""
        old, new, points = self.undisturbed(command)
        counts, problems = Counter(), []
        changed = {name for name in new if new[name] != old.get(name) and not name.startswith("run/.previous")}
        renamed = {path for kind, path in points if kind in ("rename", "open")}
        problems += [f"{name} was written unseen" for name in changed if name not in renamed]
        problems += [f"{kind} of {path} without the lock of the run" for kind, path in unlocked(points)]
        flushed = {TEMPORARY.sub(r"\1", path) for kind, path in points if kind == "flush"}
        problems += [f"{name} was not flushed" for name in changed - flushed if not name.endswith(LOGS)]
        for fault in (KILL, EIO, ENOSPC):
            numbers = [i for i, (kind, _) in enumerate(points, 1) if kind != "read" or fault == EIO]
            for number in numbers[self.n_cases % min(every, len(numbers)) :: every]:
                problem, state = self.case(command, number, fault, old, new)
                counts[fault] += 1
                counts[f"left {state}"] += 1
                if problem:
                    problems.append(f"{fault} at {number}, {points[number - 1]}: {problem}")
        return {"command": command.name, "points": len(points), **counts, "problems": problems}

    def undisturbed(self, command):
        folder = self.begin(command)
        old = contents(folder)
        layer, log = Layer(folder), self.folder / "points.json"

        def counted():
            layer.install()
            with contextlib.suppress(SystemExit):
                self.execute(command.words, folder)
            points = [(kind, os.path.relpath(path, folder)) for kind, path in layer.points]
            os.write(os.open(log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC), json.dumps(points).encode())

        code, output = in_child(counted, self.folder / "output")
        assert code == 0, (command.name, output)
        new = contents(folder)
        assert all(new.get(name) == old[name] for name in old if name.removeprefix("run/") in USERS), "a user's file"
        return old, new, json.loads(log.read_text())

    def case(self, command, number, fault, old, new):
        """What is wrong after one fault, and which state it left."""
        folder = self.begin(command)
        layer = Layer(folder, number, fault)
        code, output = in_child(lambda: (layer.install(), self.execute(command.words, folder)), self.folder / "output")
        if fault == KILL and code != KILLED:
            return f"it was not killed, but ended with {code}: {output}", "unknown"
        if fault != KILL and (code not in (0, 1, 2) or "Traceback" in output or (code and not output.strip())):
            return f"it ended with {code}: {output}", "unknown"
        code, output = in_child(lambda: open_run(folder / "run"), self.folder / "output")
        found = contents(folder)
        found = {name: found[name] for name in found if not name.startswith("out/.") and name != LOCK}
        state = state_of(found, old, new, command.steps)
        if code:
            return f"opening it ended with {code}: {output}", state
        if state.startswith("mixture"):
            return state, "mixture"
        return self.repeat(command, folder, state, new), state

    def repeat(self, command, folder, state, new):
        """What is wrong with the same command after the fault."""
        again = command.words
        if state in command.refused:
            code, output = in_child(lambda: self.execute(command.words, folder), self.folder / "output")
            if code != 2 or "force" not in output:
                return f"without force it ended with {code}: {output}"
        if state in command.refused or (state == "unfinished" and command.again):
            again = command.again[self.n_cases % len(command.again)]
        code, output = in_child(lambda: self.execute(again, folder), self.folder / "output")
        if code:
            return f"repeated as {again} it ended with {code}: {output}"
        found = contents(folder)
        different = sorted(name for name in found.keys() | new.keys() if found.get(name) != new.get(name))
        return f"repeated, it left other contents: {different}" if different else None

    def begin(self, command):
        """A copy of the folder that the command starts from, always under the same name, since config.toml names it."""
        self.n_cases += 1
        folder = self.folder / "case"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.starts / command.start, folder)
        return folder

    def execute(self, words, folder):
        if words[0] == "save":
            try:
                self.estimator.save(folder / "run", force="force" in words)
            except (AfgrlError, OSError) as error:  # what a caller expects
                raise SystemExit(str(error)) from None
        else:
            run_words([word.format(folder=folder, source=self.source, other=self.other) for word in words])


def unlocked(points):
    """The operations that change the run while its lock is not held."""
    held, found = False, []
    for kind, path in points:
        if path == LOCK:
            held = kind != "remove"
        elif kind != "read" and path.split("/")[0] == "run" and not held:
            found.append((kind, path))
    return found


def open_run(path):
    from afgrl.errors import UserError
    from afgrl.runs.folder import Run

    with contextlib.suppress(UserError):  # nothing was begun
        Run.open(path)


def run_words(words):
    from afgrl.cli.entry_point import app

    app(words)


def fitted_estimator(source):
    from afgrl import NodeEmbedder, load

    small = {"n_components": 8, "predictor_width": 8, "n_clusters": 3, "n_restarts": 2, "kmeans_iters": 2}
    return NodeEmbedder(steps=3, device="cpu", **small).fit(load(source))


def convert_once(path):
    """The conversion to ONNX takes seconds and touches no file, so all cases share one."""
    import afgrl.onnx
    from afgrl.experiment.model import load_method
    from afgrl.onnx.encoder import exportable_encoder
    from afgrl.runs.folder import Run

    method = load_method(Run.open(path), torch.device("cpu"))
    model = afgrl.onnx._convert(exportable_encoder(method), method.size.n_features, weighted=False)
    afgrl.onnx._convert = lambda *arguments, **options: model


def in_child(function, output):
    """Run a function in a fork: its exit code, negative for a signal, and what it printed."""
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        code = 0
        try:
            descriptor = os.open(output, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
            os.dup2(descriptor, 1)
            os.dup2(descriptor, 2)
            function()
        except SystemExit as stop:
            code = stop.code or 0
            if isinstance(code, str):
                print(code)
                code = 2
        except BaseException:
            traceback.print_exc()
            code = 99
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
    _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status), output.read_text(errors="replace")


def prepare():
    """Import everything that the commands use, before the first fork."""
    torch.set_num_threads(1)
    os.environ["AFGRL_COMMIT"] = "none"  # asks no git
    import onnx  # noqa: F401
    import sklearn.manifold  # noqa: F401

    import afgrl.cli.tables
    import afgrl.experiment.evaluation
    import afgrl.onnx
    import afgrl.report  # noqa: F401


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--only", default="")
    chosen = parser.parse_args()
    prepare()
    with tempfile.TemporaryDirectory() as folder:
        campaign = Campaign(Path(folder))
        for command in commands():
            if chosen.only in ("", command.name):
                started = time.perf_counter()
                answer = campaign.disturb(command, chosen.every)
                print(json.dumps(answer | {"seconds": round(time.perf_counter() - started, 1)}), flush=True)


if __name__ == "__main__":
    main()
