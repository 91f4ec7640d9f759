"""What the program answers, frozen before code is moved and compared afterwards.

python -m tools.oracle freeze BEFORE        # a folder: vectors of every method on four graphs, `check --json`, …
python -m tools.oracle compare BEFORE AFTER # what differs: "same bits", or the least cosine of a node's vectors

Everything goes through the command line, which moves do not change, on a CPU with one thread. Real graphs are read
from AFGRL_DATA; without it, Cora is left out.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "AFGRL_CACHE": tempfile.mkdtemp(), "COLUMNS": "120", "NO_COLOR": "1"}

import numpy as np
import pyarrow.parquet as pq
from typer.testing import CliRunner

import afgrl
from afgrl.cli.entry_point import app

# Few steps: what differs shows at once. A method without the setting refuses it; the last runs with the defaults.
SHORT = (("--set", "epochs=3"), ("--set", "steps=6"), ())
SCORED = ("node_embedder", "afgrl", "svd", "ppr", "hops", "raw", "random", "dgi", "cca_ssg", "bgrl", "deepwalk")


def main() -> None:
    match sys.argv[1:]:
        case ["freeze", folder]:
            freeze(Path(folder))
        case ["compare", before, after]:
            sys.exit(compare(Path(before), Path(after)))
        case _:
            sys.exit(__doc__)


def call(*words: Any) -> tuple[int, str]:
    """The exit code and standard output; standard error if there is no other output."""
    answer = CliRunner().invoke(app, [str(word) for word in words])
    return answer.exit_code, answer.stdout or answer.stderr


def freeze(folder: Path) -> None:
    folder.mkdir(parents=True)
    answers: dict[str, Any] = {"public": sorted(afgrl.__all__), "signatures": signatures(), "help": dict(help_texts())}
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        sources = write_sources(Path("sources"))
        answers["check"] = {source: json.loads(call("check", source, "--json")[1]) for source in sources}
        answers["estimate"] = {source: call("estimate", source, "--json", "--device", "cpu")[1] for source in sources}
        methods = all_methods()
        vectors: dict[str, Any] = {}
        scores: dict[str, Any] = {}
        for source in sources:
            for method in methods:
                run = Path("runs") / f"{Path(source).name}-{method}"
                code = fit_short(source, method, run)
                answers.setdefault("fit", {})[run.name] = code
                if code == 0:
                    vectors[run.name] = vectors_of(run)
                if code == 0 and source == "demo" and method in SCORED:
                    code, text = call("evaluate", run, "--device", "cpu", "--quiet")
                    assert code == 0, text
                    scores[method] = json.loads((run / "scores.json").read_text())
                print(run.name, code, flush=True)
        answers["scores"] = scores
        shutil.rmtree("runs")
    answers["hashes"] = {name: hashlib.sha256(rows.tobytes()).hexdigest() for name, rows in vectors.items()}
    np.savez_compressed(folder / "vectors.npz", **vectors)
    (folder / "answers.json").write_text(json.dumps(answers, indent=1, sort_keys=True, default=str))


def all_methods() -> list[str]:
    from afgrl.methods import available_methods

    return list(available_methods())


def fit_short(source: str, method: str, run: Path) -> int:
    code = 1
    for words in SHORT:
        code, _ = call("fit", source, "--method", method, *words, "--out", run, "--device", "cpu", "--quiet")
        if code == 0:
            return 0
    return code


def vectors_of(run: Path) -> np.ndarray:
    table = pq.read_table(run / "embeddings.parquet")
    rows: np.ndarray = np.stack(table["embedding"].to_numpy(zero_copy_only=False)).astype(np.float32)
    return rows


def signatures() -> dict[str, str]:
    found = {}
    for name in afgrl.__all__:
        try:
            found[name] = str(inspect.signature(getattr(afgrl, name)))
        except (TypeError, ValueError):
            found[name] = ""
    return found


def help_texts() -> Iterator[tuple[str, str]]:
    yield "afgrl", call("--help")[1]
    for command in app.registered_commands:
        name = command.name or (command.callback.__name__ if command.callback else "")
        yield name, call(name, "--help")[1]


def write_sources(folder: Path) -> list[str]:
    """The demo, Cora, a folder with two node types, and a folder with edge weights and columns of several types."""
    rng = np.random.default_rng(0)
    typed, weighted = folder / "typed", folder / "weighted"
    for path in (typed, weighted):
        path.mkdir(parents=True)
    cities = ("Oslo", "Rome", "Lima")
    rows = [f"u{i},{20 + i % 40},{cities[i % 3]},likes {'maps' if i % 2 else 'music'} {i % 7}" for i in range(90)]
    (typed / "users.csv").write_text("id,age,city,about\n" + "\n".join(rows) + "\n")
    (typed / "items.csv").write_text("id,price\n" + "\n".join(f"i{i},{i * 1.5}" for i in range(60)) + "\n")
    pairs = sorted({(int(a), int(b)) for a, b in zip(rng.integers(0, 90, 400), rng.integers(0, 60, 400), strict=True)})
    (typed / "edges.csv").write_text("user,item\n" + "\n".join(f"u{a},i{b}" for a, b in pairs) + "\n")
    rows = [f"n{i},{cities[i % 3]},{rng.normal():.3f},{rng.normal():.3f},{i % 4}" for i in range(120)]
    (weighted / "nodes.csv").write_text("id,label,a,b,c\n" + "\n".join(rows) + "\n")
    ends = zip(rng.integers(0, 120, 500), rng.integers(0, 120, 500), rng.random(500), strict=True)
    (weighted / "edges.csv").write_text("source,target,weight\n" + "".join(f"n{a},n{b},{w:.3f}\n" for a, b, w in ends))
    real = ["cora"] if "AFGRL_DATA" in os.environ else []
    return ["demo", *real, str(typed), str(weighted)]


def compare(before: Path, after: Path) -> int:
    """Prints what differs; 1 if anything does."""
    old, new = (json.loads((folder / "answers.json").read_text()) for folder in (before, after))
    vectors = [np.load(folder / "vectors.npz") for folder in (before, after)]
    different = 0
    for name in sorted(set(old["hashes"]) | set(new["hashes"])):
        if old["hashes"].get(name) == new["hashes"].get(name):
            continue
        different = 1
        if name not in old["hashes"] or name not in new["hashes"]:
            print(f"vectors {name}: only {'before' if name in old['hashes'] else 'after'}")
            continue
        first, second = (each[name] for each in vectors)
        if first.shape != second.shape:
            print(f"vectors {name}: {first.shape} became {second.shape}")
            continue
        norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
        cosines = (first * second).sum(1) / np.maximum(norms, 1e-30)
        print(f"vectors {name}: least cosine {cosines.min():.6f}")
    for key in ("public", "signatures", "help", "check", "estimate", "fit", "scores"):
        for path, pair in differences(old.get(key), new.get(key), key):
            different = 1
            print(f"{path}: {pair[0]!r:.160} became {pair[1]!r:.160}")
    print("different" if different else "the same bits and answers")
    return different


def differences(old: Any, new: Any, path: str) -> Iterator[tuple[str, tuple[Any, Any]]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(set(old) | set(new)):
            if key not in ("seconds", "evaluated_at"):
                yield from differences(old.get(key), new.get(key), f"{path}.{key}")
    elif old != new:
        yield path, (old, new)


if __name__ == "__main__":
    main()
