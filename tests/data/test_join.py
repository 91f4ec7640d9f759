"""New nodes added to the graph of a run."""

import numpy as np
import pytest
import torch

from afgrl import UserError, load
from afgrl.data.files import load_files
from afgrl.data.join import join_graphs
from afgrl.data.tables.encode import table_encoder_from_json
from afgrl.data.tables.options import ReadOptions
from tests.data.tables import NODES, weights_by_ids, write_tables


def test_new_nodes_join_the_graph_they_are_linked_to(tmp_path):
    old = load(str(write_tables(tmp_path)))
    nodes = "name,age,city,about\nnew,35,Rome,old maps\nbob,50,Oslo,wine\n"
    folder = write_tables(tmp_path / "new", nodes, "from,to\nnew,ann\nnew,other\n")
    joined, new_positions = join_graphs(old, load_files(folder, fitted=old.graph.table_encoder))
    assert joined.graph.ids[new_positions].tolist() == ["new", "bob", "other"]
    assert joined.graph.n_edges == old.graph.n_edges + 2
    names = old.feature_names
    x, before = joined.graph.x.to_dense(), old.graph.x.to_dense()
    rows = {name: i for i, name in enumerate(joined.graph.ids)}
    assert torch.equal(x[rows["ann"]], before[0])  # only in the new edges: its features stay
    assert x[rows["bob"], names.index("city=Oslo")] == 1  # in the new node table
    assert x[rows["new"], names.index("city=Rome")] == 1


def test_new_edges_keep_their_weights(tmp_path):
    old = load(str(write_tables(tmp_path, NODES, "from,to,weight\nann,bob,2\nbob,cy,4\ncy,ann,6\n")))
    nodes = "name,age,city,about,label\neve,50,Rome,maps,a\n"
    new = write_tables(tmp_path / "new", nodes, "from,to,weight\neve,ann,10\nann,bob,8\n")
    fitted = table_encoder_from_json(old.graph.table_encoder.as_json())
    joined, _ = join_graphs(old, load_files(new, fitted=fitted))
    expected = {("ann", "bob"): 4, ("bob", "cy"): 2, ("ann", "cy"): 3, ("ann", "eve"): 5}
    assert weights_by_ids(joined.graph) == expected
    (new / "edges.csv").write_text("from,to\neve,ann\n")
    joined, _ = join_graphs(old, load_files(new, fitted=fitted))
    assert weights_by_ids(joined.graph)["ann", "eve"] == 2  # the mean of the others


def test_new_points_are_linked_to_their_nearest_neighbors(tmp_path):
    rng = np.random.default_rng(0)
    rows = "".join(f"{i},{a:.3f},{b:.3f}\n" for i, (a, b) in enumerate(rng.normal(size=(20, 2))))
    (tmp_path / "points.csv").write_text("id,a,b\n" + rows)
    (tmp_path / "more_points.csv").write_text("id,a,b\n99" + rows.split("\n")[4][1:] + "\n")  # a copy of point 4
    old = load(tmp_path / "points.csv", options=ReadOptions(knn_graph=3))
    new = load_files(tmp_path / "more_points.csv", fitted=old.graph.table_encoder, needs_edges=False)
    joined, (position,) = join_graphs(old, new, n_neighbors=3)
    assert joined.graph.ids[position] == 99
    assert joined.graph.ids.dtype == np.int64
    source, target = joined.graph.edge_index
    neighbors = target[source == position].tolist()
    assert len(neighbors) == 3
    assert 4 in neighbors


def test_a_different_number_of_features_is_an_error(tmp_path):
    old = load(write_tables(tmp_path / "old", "id,v\na,1\nb,2\n", "source,target\na,b\n"))
    new = load(write_tables(tmp_path / "new", "id,v,w\na,1,3\nb,2,7\n", "source,target\na,b\n"))
    with pytest.raises(UserError, match="trained on 1 features, but 'new' has 2"):
        join_graphs(old, new)
