"""Compare the batched logistic probe with scikit-learn's LogisticRegression on untrained embeddings.

    OMP_NUM_THREADS=1 python -m benchmarks.probe [Cora] [Photo]      # CPU: ours and scikit-learn's
    python -m benchmarks.probe [Cora] [Photo] --cuda                 # GPU: ours, wall-clock seconds

Both fit 20 random 10/10/80 splits x 9 strengths on unit rows, choose the strength on the validation nodes and report
the test accuracy. The embedding is that of a random linear layer, two GCN propagations and a PReLU (width 512).
The raw files are read from AFGRL_DATA. Times are CPU seconds of the process on one thread, so that other processes on
the machine matter little.
"""

import os
import pickle
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from afgrl.data.splits import TEST, TRAIN, VALIDATION, random_splits
from afgrl.evaluate import logistic_probe
from afgrl.evaluate.classification import STRENGTHS
from afgrl.evaluate.logistic import TOLERANCE

DATA = Path(os.environ.get("AFGRL_DATA", "."))
ROUNDS = 2


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore", DeprecationWarning)
    print(
        f"{torch.get_num_threads()} thread(s); strengths {STRENGTHS[0]:g} to {STRENGTHS[-1]:g}; tolerance {TOLERANCE}"
    )
    for name in names:
        x, y = untrained_embedding(name)
        splits = random_splits(len(y))
        ours_time, ours = fastest(lambda x=x, y=y, splits=splits: logistic_probe(torch.from_numpy(x), y, splits))
        # Ours scales the features to spread 1, which divides the gradient by the spread.
        unit = normalize(x)
        spread = float(np.sqrt(((unit - unit.mean(0)) ** 2).sum(1).mean()))
        print(f"{name} {x.shape}: ours {ours_time:.1f} s, {np.mean(ours):.3f} %; spread of the unit rows {spread:.3f}")
        variants = ((1e-4, False), (TOLERANCE, False), (TOLERANCE * spread, False), (TOLERANCE, True))
        for tolerance, warm_start in variants:
            options = {"tol": tolerance, "warm_start": warm_start}
            theirs_time, (theirs, unconverged) = timed(
                lambda x=x, y=y, splits=splits, options=options: scikit_learn_probe(x, y, splits, options)
            )
            difference = np.array(ours) - np.array(theirs)
            print(
                f"  scikit-learn, tol={tolerance:.1e}{', warm start' * warm_start}: {theirs_time:.1f} s "
                f"({theirs_time / ours_time:.1f} x), {np.mean(theirs):.3f} %; difference in accuracy: mean "
                f"{difference.mean():+.3f}, largest {np.abs(difference).max():.3f} points; {unconverged} fits stopped "
                "at max_iter",
                flush=True,
            )


def on_gpu(names: list[str]) -> None:
    for name in names:
        x, y = untrained_embedding(name)
        splits = random_splits(len(y))
        rows = torch.from_numpy(x).cuda()
        logistic_probe(rows, y, splits)
        start = time.perf_counter()
        accuracy = np.mean(logistic_probe(rows, y, splits))  # returns Python floats, so it waits for the GPU
        print(
            f"{name} {x.shape}: {time.perf_counter() - start:.2f} s on {torch.cuda.get_device_name()}, {accuracy:.3f} %"
        )


def scikit_learn_probe(x, y, splits, options):
    """The test accuracy per split, and the number of fits that reached max_iter."""
    x = normalize(x)
    values, unconverged = [], 0
    for roles in splits.roles:
        train, validation, test = (roles == role for role in (TRAIN, VALIDATION, TEST))
        scores = []
        model = LogisticRegression(max_iter=2000, **options)
        for strength in STRENGTHS:
            model.set_params(C=strength)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", ConvergenceWarning)
                model.fit(x[train], y[train])
            unconverged += any(issubclass(one.category, ConvergenceWarning) for one in caught)
            scores.append((model.score(x[validation], y[validation]), model.score(x[test], y[test])))
        values.append(100 * max(scores, key=lambda pair: pair[0])[1])
    return values, unconverged


def untrained_embedding(name):
    x, adjacency, y = read(name)
    adjacency = ((adjacency + adjacency.T) > 0).astype(np.float32)
    adjacency.setdiag(1)
    scale = sp.diags_array(1 / np.sqrt(adjacency.sum(1)))
    adjacency = scale @ adjacency @ scale
    weight = np.random.default_rng(0).normal(size=(x.shape[1], 512)).astype(np.float32) / np.sqrt(x.shape[1])
    h = adjacency @ (adjacency @ (x.astype(np.float32) @ weight))
    return np.where(h > 0, h, 0.25 * h).astype(np.float32), y.astype(np.int64)


def read(name):
    if name != "Cora":
        with np.load(next((DATA / name / "raw").glob("*.npz")), allow_pickle=True) as file:
            x, adjacency = (
                sp.csr_array(
                    tuple(file[f"{key}_{part}"] for part in ("data", "indices", "indptr")), file[f"{key}_shape"]
                )
                for key in ("attr", "adj")
            )
            return x, adjacency, file["labels"]
    parts = {
        part: pickle.loads((DATA / f"Cora/raw/ind.cora.{part}").read_bytes(), encoding="latin1")
        for part in ("tx", "allx", "ty", "ally", "graph")
    }
    test = np.loadtxt(DATA / "Cora/raw/ind.cora.test.index", dtype=int)
    x = sp.vstack([parts["allx"], parts["tx"]]).tolil()
    y = np.vstack([parts["ally"], parts["ty"]])
    x[test], y[test] = x[np.sort(test)], y[np.sort(test)]
    edges = np.array([(i, j) for i, neighbors in parts["graph"].items() for j in neighbors]).T
    return sp.csr_array(x), sp.csr_array((np.ones(edges.shape[1]), edges), shape=(len(y), len(y))), y.argmax(1)


def timed(call):
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def fastest(call):
    return min((timed(call) for _ in range(ROUNDS)), key=lambda pair: pair[0])


if __name__ == "__main__":
    graphs = [argument for argument in sys.argv[1:] if argument != "--cuda"] or ["Cora", "Photo"]
    (on_gpu if "--cuda" in sys.argv else main)(graphs)
