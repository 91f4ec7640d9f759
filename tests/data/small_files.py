"""Small raw files in each of the published layouts."""

import json
import pickle

import numpy as np
import scipy.sparse as sp


def csr_arrays(prefix, matrix):
    matrix = sp.csr_array(matrix)
    parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": matrix.shape}
    return {f"{prefix}_{part}": np.asarray(value) for part, value in parts.items()}


def small_arrays(n=12, n_features=9, seed=0):
    """A ring with edges in one direction, two non-zero features per node, three classes."""
    rng = np.random.default_rng(seed)
    adjacency = np.zeros((n, n), dtype=np.float32)
    adjacency[np.arange(n), (np.arange(n) + 1) % n] = 1
    features = np.zeros((n, n_features), dtype=np.float32)
    for row in features:
        row[rng.choice(n_features, 2, replace=False)] = [2, 3]
    labels = np.arange(n) % 3
    return {**csr_arrays("adj", adjacency), **csr_arrays("attr", features), "labels": labels}


def write_npz(path, **changes):
    """``small_arrays`` with ``changes``; None leaves an array out."""
    arrays = {**small_arrays(), **changes}
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


def write_planetoid(root, folder="Cora", n_train=6, n_test=20, n_features=8):
    """PyG uses the 500 nodes after the training nodes for validation, so there are at least that many."""
    n_all = n_train + 500 + 4
    n = n_all + n_test
    features = sp.csr_matrix(np.eye(n_features, dtype=np.float32)[np.arange(n) % n_features])
    classes = np.eye(3, dtype=np.int32)[np.arange(n) % 3]
    links = {i: [(i + 1) % n, (i - 1) % n] for i in range(n)}
    parts = {
        "x": features[:n_train],
        "y": classes[:n_train],
        "allx": features[:n_all],
        "ally": classes[:n_all],
        "tx": features[n_all:],
        "ty": classes[n_all:],
        "graph": links,
    }
    raw = root / folder / "raw"
    raw.mkdir(parents=True)
    for part, content in parts.items():
        (raw / f"ind.{folder.lower()}.{part}").write_bytes(pickle.dumps(content))
    test_index = "\n".join(str(i) for i in range(n_all, n))
    (raw / f"ind.{folder.lower()}.test.index").write_text(test_index + "\n")
    return raw


def write_wikics(root, n=30, n_splits=20):
    """A ring, with a self-loop at node 0; each split has two training and two validation nodes."""
    links = [[(i + 1) % n] for i in range(n)]
    links[0].append(0)
    test = [i >= n // 2 for i in range(n)]

    def masks(first):
        return [[i in (first + s % 2, first + 2 + s % 2) for i in range(n)] for s in range(n_splits)]

    content = {
        "features": np.random.default_rng(0).normal(size=(n, 4)).tolist(),
        "labels": [i % 3 for i in range(n)],
        "links": links,
        "train_masks": masks(0),
        "val_masks": masks(4),
        "stopping_masks": masks(8),
        "test_mask": test,
    }
    raw = root / "WikiCS" / "raw"
    raw.mkdir(parents=True)
    (raw / "data.json").write_text(json.dumps(content))
    return raw / "data.json"
