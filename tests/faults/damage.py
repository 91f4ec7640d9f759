"""Damages each file of a run in many ways, and runs the commands that read it. Prints one line of JSON per file.

python -m tests.faults.damage [--seeds N] [--only FILE]     # N random changes of each kind per file, by default 12

With one seed it is a sample: every fourth damage, and each damaged file is read by one of its commands only.

A command may succeed, with the numbers that it has without the damage, or end with exit code 2 and one sentence that
names the file. Each file is examined in its own process, so that a crash of native code is noticed.
"""

import argparse
import io
import json
import os
import shutil
import sys
import tempfile
import zipfile
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from itertools import islice
from pathlib import Path

import numpy as np

from tests.faults.commands import FIRST, FIT, write_source
from tests.faults.worker import convert_once, in_child, prepare, run_words

EMBED = ["embed", "{run}", "--graph", "{other}", "--alone", "--out", "{folder}/new.csv", "--device", "cpu", "--force"]
CLUSTER, REPORT = ["cluster", "{run}", "-k", "3", "--json"], ["report", "{run}", "--map", "pca", "--quiet"]
EVALUATE, EXPORT = ["evaluate", "{run}", "--json", "--device", "cpu"], ["export", "{run}"]
SEARCH, INDEXED = ["search", "{run}", "n1", "--json"], ["search", "{run}", "n1", "--json", "--index"]
QUALITY = ["quality", "{run}", "--quick", "--quiet", "--device", "cpu"]
RESUME = ["fit", "{source}", "--out", "{run}", "--resume", "--quiet", "--device", "cpu", "--json"]
REPAIR = list(RESUME)  # of a finished run, which writes again what is damaged
READERS = {
    "config.toml": [SEARCH, REPORT, RESUME, EVALUATE],
    "environment.json": [REPORT],
    "graph.safetensors": [CLUSTER, EVALUATE, RESUME],
    "nodes.parquet": [REPORT, CLUSTER, SEARCH],
    "splits.npz": [EVALUATE, RESUME],
    "data.json": [REPORT, CLUSTER],
    "preprocessing.json": [EMBED, CLUSTER],
    "history.jsonl": [REPORT, RESUME],
    "evaluations.jsonl": [EVALUATE, RESUME],
    "checkpoint.pt": [RESUME],
    "model.safetensors": [EMBED, EXPORT, REPAIR],
    "model.json": [EMBED, EXPORT, REPAIR],
    "embeddings.parquet": [SEARCH, CLUSTER, REPORT, REPAIR],
    "predictions.npz": [EVALUATE],
    "clusters.parquet": [REPORT],
    "projection-pca.npy": [REPORT],
    "scores.json": [REPORT],
    "quality.json": [REPORT],
    "index.json": [INDEXED],
    "index.faiss": [INDEXED],
}
VALUES = (None, True, -1, 10**30, 1.5, "text", [], [[1]], {}, {"a": 1}, "NaN")  # instead of an entry


def damaged_versions(content, name, draw, n_seeds):
    """Changed contents of a file, each with what was done to it."""
    size = len(content)
    for end in {0, 1, size // 3, size // 2, size - 1, size - 8} if n_seeds > 1 else {0, size - 1}:
        yield f"cut after {end} bytes", content[: max(end, 0)]
    yield "zeros", bytes(size)
    yield "doubled", content + content
    for _ in range(n_seeds):
        place, length = int(draw.integers(size)), int(draw.integers(1, 16))
        noise = draw.integers(0, 256, length, dtype=np.uint8).tobytes()
        yield f"noise at {place}", content[:place] + noise + content[place + length :]
        place = int(draw.integers(size))
        flipped = bytes([content[place] ^ (1 << int(draw.integers(8)))])
        yield f"a bit flipped at {place}", content[:place] + flipped + content[place + 1 :]
        begin, end = sorted(int(place) for place in draw.integers(0, size, 2))
        yield f"without {begin} to {end}", content[:begin] + content[end:]
    if name.endswith(".json"):
        yield from _changed_entries(json.loads(content), draw, n_seeds)
    if name.endswith(".npz"):
        yield from _changed_arrays(content)


def _changed_entries(value, draw, n_seeds):
    """JSON with an entry missing or of another type, at every level."""
    yield "another type", b"[1, 2]"
    places = list(_places(value))
    for number in draw.permutation(len(places))[: 2 * n_seeds]:
        place = places[number]
        for replacement in ("missing", VALUES[int(draw.integers(len(VALUES)))]):
            copy = json.loads(json.dumps(value))
            inner = copy
            for step in place[:-1]:
                inner = inner[step]
            if replacement == "missing":
                del inner[place[-1]]
            else:
                inner[place[-1]] = replacement
            yield f"{place} is {replacement!r}", json.dumps(copy).encode()


def _places(value, before=()):
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield (*before, key)
        yield from _places(inner, (*before, key))


def _changed_arrays(content):
    """Valid archives whose arrays have another shape, type or range."""
    with np.load(io.BytesIO(content)) as stored:
        arrays = dict(stored)
    for name, array in arrays.items():
        for what, other in (
            ("one dimension more", array[None]), ("text", array.astype(str)), ("short", np.atleast_1d(array)[..., :1]),
            ("large", np.full(array.shape, 10**12)), ("negative", np.full(array.shape, -7)),
        ):  # fmt: skip
            file = io.BytesIO()
            np.savez(file, **arrays | {name: other})
            yield f"{name}: {what}", file.getvalue()
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        shape = b"{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000,), }".ljust(70)
        header = b"\x93NUMPY\x01\x00\x46\x00" + shape
        for name in arrays:
            archive.writestr(f"{name}.npy", header)
    yield "arrays that claim 8 TB", file.getvalue()


class Damage:
    def __init__(self, folder):
        self.folder, self.original, self.run = folder, folder / "original", folder / "run"
        self.unfinished = folder / "unfinished"
        self.names = {"run": self.run, "folder": folder, "source": folder / "source", "other": folder / "other"}
        source, other = write_source(folder / "source", 15), write_source(folder / "other", 18, seed=1)
        for words in (
            ["fit", str(source), "--out", "{run}", *FIT, *FIRST], EVALUATE, CLUSTER, QUALITY, REPORT, EXPORT, INDEXED,
        ):  # fmt: skip
            code, output = in_child(lambda words=words: self.execute(words), folder / "output")
            assert code == 0, (words, output)
        shutil.move(self.run, self.original)
        code, output = in_child(lambda: self.stop_before_the_end(source), folder / "output")
        assert code == 2, output
        shutil.move(self.run, self.unfinished)
        self.predictions(source)
        convert_once(self.original)
        del other

    def predictions(self, source):
        """Of a supervised method, put into the run: the file has the same form for any method."""
        words = ["fit", str(source), "--out", "{folder}/supervised", "--method", "supervised_gcn", "--label", "topic",
                 "--quiet", "--device", "cpu", "--set", "epochs=3"]  # fmt: skip
        code, output = in_child(lambda: self.execute(words), self.folder / "output")
        assert code == 0, output
        shutil.copy(self.folder / "supervised" / "predictions.npz", self.original)

    def stop_before_the_end(self, source):
        """A run with a checkpoint and without a model, as after a kill."""
        from afgrl.runs.folder import Run

        def stop(*_):
            raise SystemExit("stopped")

        Run.save_model = stop
        self.execute(["fit", str(source), "--out", "{run}", *FIT, *FIRST])

    def execute(self, words):
        run_words([word.format(**self.names) for word in words])

    def examine(self, name, n_seeds):
        """The counts for one file and what went wrong, from a child of this process."""
        log = self.folder / "log.json"
        log.unlink(missing_ok=True)
        code, output = in_child(lambda: log.write_text(json.dumps(self.cases(name, n_seeds))), self.folder / "output")
        if code:
            crash = (self.folder / "current").read_text()
            return {"file": name, "problems": [f"the process ended with {code}: {crash} {output[-2000:]}"]}
        return json.loads(log.read_text())

    def cases(self, name, n_seeds):
        content = (self.unfinished if name == "checkpoint.pt" else self.original).joinpath(name).read_bytes()
        expected = [self.answer(words)[1] for words in READERS[name]]
        counts, problems = Counter(), []
        versions = damaged_versions(content, name, np.random.default_rng(len(content)), n_seeds)
        for number, (what, changed) in enumerate(versions if n_seeds > 1 else islice(versions, 0, None, 4)):
            counts["damaged"] += 1
            readers = list(zip(READERS[name], expected, strict=True))
            for words, usual in readers if n_seeds > 1 else [readers[number % len(readers)]]:
                (self.folder / "current").write_text(f"{what}, {words}")
                code, found, sentence = self.answer(words, name, changed)
                counts[f"exit code {code}"] += 1
                lines = sentence.strip().splitlines()[-1:]  # after the messages of a command that reads tables
                if code == 2 and "Traceback" not in sentence and lines and self.names_it(name, lines[0]):
                    continue
                if code == 0 and (found == usual or name.endswith((".json", ".toml", ".jsonl", ".npy"))):
                    continue  # text and pictures have no checksum
                problems.append(f"{what}, {words[0]}: {code} {sentence[-900:] or 'silently other numbers'}")
        return {"file": name, **counts, "problems": problems}

    def names_it(self, name, sentence):
        """A config.toml that can be read may describe another run, which is then named."""
        return name in sentence or (name == "config.toml" and str(self.run) in sentence)

    def answer(self, words, name=None, changed=None):
        shutil.rmtree(self.run, ignore_errors=True)
        shutil.copytree(self.unfinished if words is RESUME else self.original, self.run)
        if name:
            (self.run / name).write_bytes(changed)
        out, err = io.StringIO(), io.StringIO()
        code = 99
        with redirect_stdout(out), redirect_stderr(err):
            try:
                self.execute(words)
            except SystemExit as stop:
                code = stop.code or 0
            except BaseException:
                import traceback

                traceback.print_exc()
        results = out.getvalue()
        if (words is RESUME or words is REPAIR) and code == 0:
            from afgrl.runs.embeddings import read_parquet

            ids, vectors = read_parquet(self.run / "embeddings.parquet")
            results = f"{ids.tolist()} {vectors.tobytes().hex()}"
        if words is EMBED and code == 0:
            results = (self.folder / "new.csv").read_text()
        return code, results, err.getvalue()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--only", default="")
    chosen = parser.parse_args()
    prepare()
    with tempfile.TemporaryDirectory() as folder:
        damage = Damage(Path(folder))
        for name in READERS:
            if chosen.only in ("", name):
                print(json.dumps(damage.examine(name, chosen.seeds)), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
