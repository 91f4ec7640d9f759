"""What `afgrl check` says about a dataset."""

import json

import numpy as np
import pytest
import torch

from afgrl import Dataset, Graph, load
from afgrl.data.describe import describe_dataset
from tests.data.tables import write_tables


def warnings_of(description):
    return [message["text"] for message in description["messages"] if message["level"] == "warning"]


def test_suspicious_tables_get_warnings(tmp_path):
    hub = "".join(f"hub,n{i}\n" for i in range(80))
    rows = "".join(f"n{i},{i % 2},{i % 2},1,{'ab'[i % 2]}\n" for i in range(200))
    write_tables(tmp_path, "id,p,q,one,label\nhub,1,1,1,a\n" + rows, "source,target\n" + hub)
    description = describe_dataset(load(str(tmp_path)))
    assert warnings_of(description) == [
        "Nodes without edges: 120 of 201 (60%).",
        "Nodes linked to more than 20% of all nodes: 1 ('hub').",
        "Features with the same value for all nodes: 1 ('one').",
        "Features that repeat another one: 1 ('q = p').",
    ]
    assert description["homophily"] == pytest.approx(0.5)
    assert description["components"] == 121
    assert json.loads(json.dumps(description)) == description


def test_components_homophily_and_classes_get_warnings():
    ring = np.arange(30).reshape(10, 3)
    edges = np.concatenate([np.stack([ring[:, i], ring[:, (i + 1) % 3]]) for i in range(3)], axis=1)
    x = torch.eye(30)
    x[0] = 0
    y = np.zeros(30, dtype=np.int64)
    y[0] = 1
    description = describe_dataset(Dataset("triangles", Graph(x, edges), y))
    assert warnings_of(description) == [
        "The graph has 10 connected components; the largest has only 10% of the linked nodes.",
        "Features with the same value for all nodes: 1 ('feature 0').",
        "Nodes whose features are all 0: 1.",
        "One class has 97% of the labeled nodes.",
    ]
    alternating = Dataset("path", Graph(torch.eye(4), [[0, 1, 2], [1, 2, 3]]), np.array([0, 1, 0, 1]))
    text = "Only 0% of the edges link nodes of the same class (low homophily)."
    assert warnings_of(describe_dataset(alternating)) == [text]
    no_edges = Dataset("points", Graph(torch.eye(4), torch.empty(2, 0)))
    assert warnings_of(describe_dataset(no_edges)) == [
        "The graph has no edges, so embeddings depend on features alone."
    ]
