import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from afgrl.data import catalog, load, names
from afgrl.data.demo import COUNTS, load_demo
from afgrl.errors import UserError
from tests.data.small_files import write_npz


def test_names():
    assert names() == ["demo", "wikics", "computers", "photo", "cs", "physics", "cora", "citeseer", "pubmed"]


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(
        UserError, match=r"^There is no file or folder 'phto', and no dataset of this name; did you mean"
    ):
        load("phto")
    with pytest.raises(UserError, match=r"no dataset of this name; possible values: citeseer, .*wikics\.$"):
        load("nosuch")
    with pytest.raises(UserError, match="Unknown type of splits 'rand'"):
        load("demo", splits="rand")


def test_demo_is_a_symmetric_graph_of_digits():
    dataset = load_demo()
    graph = dataset.graph
    assert (graph.n, graph.n_edges, graph.n_features, dataset.n_classes) == (
        COUNTS.nodes,
        COUNTS.edges,
        COUNTS.features,
        COUNTS.classes,
    )
    assert (float(graph.x.min()), float(graph.x.max())) == (0, 1)
    edges = set(map(tuple, graph.edge_index.T.tolist()))
    assert edges == {(target, source) for source, target in edges}
    assert int(torch.bincount(graph.edge_index[0], minlength=graph.n).min()) >= 5
    assert (dataset.y[graph.edge_index[0]] == dataset.y[graph.edge_index[1]]).mean() > 0.9


def test_demo_edges_are_nearest_neighbors():
    graph = load_demo().graph
    distances = torch.cdist(graph.x.double(), graph.x.double()).fill_diagonal_(torch.inf)
    tenth = distances.sort(dim=1).values[:, 9]
    source, target = graph.edge_index
    length = distances[source, target]
    # Ten instead of five neighbors allow for ties, 1e-9 for the rounding of square roots.
    assert bool((length <= torch.maximum(tenth[source], tenth[target]) + 1e-9).all())


def test_random_splits_depend_on_the_seed():
    first, same, other = (load("demo", seed=seed).splits for seed in (1, 1, 2))
    assert np.array_equal(first.roles, same.roles)
    assert not np.array_equal(first.roles, other.roles)


def test_canonical_splits_are_an_error_if_there_are_none():
    with pytest.raises(UserError, match="'demo' has no canonical splits"):
        load("demo", splits="canonical")


def test_the_catalog_says_what_is_available(tmp_path):
    write_npz(tmp_path / "Photo" / "raw" / "amazon_electronics_photo.npz")
    rows = {row["name"]: row for row in catalog(tmp_path)}
    assert list(rows) == names()
    assert [name for name, row in rows.items() if row["available"]] == ["demo", "photo"]
    assert rows["photo"]["available"] == str(tmp_path / "Photo" / "raw")
    assert rows["cs"]["url"].startswith("https://")
    assert rows["cs"]["edges"] == 81_894
    assert json.loads(json.dumps(rows)) == rows


def test_importing_data_does_not_import_large_libraries():
    heavy = "{'torch_geometric', 'sklearn', 'networkx'}"
    code = f"import sys, afgrl.data; sys.exit(str({heavy} & set(sys.modules) or ''))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr.strip() == ""
