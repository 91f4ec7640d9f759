"""A user's own tables and graph files."""

import gzip
import json
from datetime import datetime

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import StandardScaler
from torch_geometric.data import Data

from afgrl import Graph, UserError, load
from afgrl.data.check import check
from afgrl.data.files.encode import Encoder, fitted_from_json
from afgrl.data.files.join import join
from afgrl.data.files.options import Options
from afgrl.data.files.source import load_files
from afgrl.data.files.structure import Structure

NODES = """name,age,city,about,label
ann,30,Paris,likes long walks and old maps,a
bob,41,Rome,likes maps and good wine,b
cy,,Paris,reads about old wine and walks,a
dee,29,Oslo,draws maps of long rivers,
"""
EDGES = "from,to\nann,bob\nbob,cy\nzed,dee\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "edges.csv").write_text(EDGES)
    return tmp_path


def sentences(dataset, kind=None):
    return [note.text for note in dataset.reading.notes.all if kind in (None, note.kind)]


def test_two_tables_become_a_graph_under_their_ids(folder):
    dataset = load(str(folder))
    graph = dataset.graph
    assert graph.ids.tolist() == ["ann", "bob", "cy", "dee", "zed"]
    assert graph.n_edges == 3
    linked = {(graph.ids[a], graph.ids[b]) for a, b in graph.edge_index.T.tolist()}
    assert linked == {("ann", "bob"), ("bob", "ann"), ("bob", "cy"), ("cy", "bob"), ("zed", "dee"), ("dee", "zed")}
    assert dataset.y.tolist() == [0, 1, 0, -1, -1]
    assert dataset.reading.classes == ["a", "b"]
    assert dataset.reading.columns.column_names == ["id", "age", "city", "about", "label"]
    assert (dataset.splits.roles[:, 3:] == 0).all()  # nodes without a label are in no part


def test_training_never_sees_the_label(folder):
    with_label = load(str(folder)).graph.x
    (folder / "nodes.csv").write_text(NODES.replace(",a\n", ",b\n"))
    assert torch.equal(load(str(folder)).graph.x, with_label)


def test_columns_become_what_scikit_learn_makes_of_them(folder):
    dataset = load(str(folder))
    x = dataset.graph.x.to_dense().numpy()
    names = dataset.feature_names
    ages = np.array([30, 41, 29.0])
    expected = StandardScaler().fit_transform(ages[:, None])[:, 0]
    np.testing.assert_allclose(x[[0, 1, 3], names.index("age")], expected, atol=1e-6)
    assert x[2, names.index("age")] == 0  # the mean
    assert x[:, names.index("age is missing")].tolist() == [0, 0, 1, 0, 1]
    assert x[:, names.index("city=Paris")].tolist() == [1, 0, 1, 0, 0]
    texts = ["likes long walks and old maps", "likes maps and good wine", "reads about old wine and walks",
             "draws maps of long rivers"]  # fmt: skip
    vectorizer = TfidfVectorizer(sublinear_tf=True).fit(texts)
    words = [names.index(f"about: {word}") for word in vectorizer.get_feature_names_out()]
    np.testing.assert_allclose(x[:4, words], vectorizer.transform(texts).toarray(), atol=1e-6)
    assert not x[4, words].any()


def test_an_encoder_is_kept_as_json_and_encodes_alike():
    table = pa.table({"n": [1.0, 2.0, None], "c": ["x", "y", "x"], "t": ["a bee sea", "sea bee", None],
                      "v": [[1.0, 2.0], [3.0, 4.0], [5.0, 9.0]]})  # fmt: skip
    encoder = Encoder.fit(table, {"n": "number", "c": "category", "t": "text", "v": "vector"})
    again = fitted_from_json(json.loads(json.dumps(encoder.as_json())))
    assert again == encoder
    np.testing.assert_array_equal(again.encode(table).toarray(), encoder.encode(table).toarray())
    other = pa.table({"n": [7.0], "c": ["unseen"], "t": ["nothing known"], "v": [[0.0, 0.0]]})
    row = encoder.encode(other).toarray()[0]
    assert row[encoder.names.index("c=x")] == row[encoder.names.index("c=y")] == 0
    with pytest.raises(UserError, match="lacks the column 'c'"):
        encoder.encode(other.drop_columns(["c"]))


def test_counts_stay_sparse():
    words = np.zeros((50, 30), dtype=int)
    words[np.arange(50), np.arange(50) % 30] = 1
    table = pa.table({f"w{i}": words[:, i] for i in range(30)})
    encoder = Encoder.fit(table, dict.fromkeys(table.column_names, "number"))
    np.testing.assert_array_equal(encoder.encode(table).toarray(), words)


@pytest.mark.parametrize("form", ["csv", "tsv", "parquet", "csv.gz", "semicolon", "utf-16"])
def test_the_same_tables_in_other_forms(folder, form, tmp_path):
    expected = load(str(folder)).graph
    other = tmp_path / "other"
    other.mkdir()
    for name, text in (("nodes", NODES), ("edges", EDGES)):
        if form == "parquet":
            rows = [line.split(",") for line in text.strip().split("\n")]
            columns = {key: [row[i] or None for row in rows[1:]] for i, key in enumerate(rows[0])}
            if "age" in columns:
                columns["age"] = [None if age is None else int(age) for age in columns["age"]]
            pq.write_table(pa.table(columns), other / f"{name}.parquet")
        elif form == "csv.gz":
            with gzip.open(other / f"{name}.csv.gz", "wt") as file:
                file.write(text)
        elif form == "utf-16":
            (other / f"{name}.csv").write_text(text, encoding="utf-16")
        else:
            sign = {"csv": ",", "tsv": "\t", "semicolon": ";"}[form]
            (other / f"{name}.{'tsv' if form == 'tsv' else 'csv'}").write_text(text.replace(",", sign))
    graph = load(str(other)).graph
    assert graph.ids.tolist() == expected.ids.tolist()
    assert torch.equal(graph.edge_index, expected.edge_index)
    assert torch.equal(graph.x.to_dense(), expected.x.to_dense())


def test_lists_of_numbers_and_dates(tmp_path):
    days = pa.array([0, 1, 2], pa.date32())
    nodes = {
        "id": ["a", "b", "c"],
        "v": [[1.0, 2.0], [3.0, 4.0], [5.0, 9.0]],
        "day": days,
        "at": days.cast(pa.timestamp("s")),
    }
    nodes["lasts"] = pa.array([1, 2, 3], pa.duration("s"))
    pq.write_table(pa.table(nodes), tmp_path / "nodes.parquet")
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,other\n")
    dataset = load(str(tmp_path))
    assert dataset.feature_names == ["v[0]", "v[1]", "day", "at"]
    np.testing.assert_allclose(dataset.graph.x.to_dense()[3], 0)  # a node without columns
    assert any("'lasts'" in sentence for sentence in sentences(dataset, "repaired"))


def test_dates_and_truths_of_a_csv_are_numbers_as_those_of_a_parquet_are(tmp_path):
    days = ["2020-01-01", "2020-01-02 12:00", "2020-01-03T13:00:00+01:00", "2020-01-05T00:00:00Z"]
    (tmp_path / "nodes.csv").write_text(
        "id,born,active\n" + "".join(f"{i},{day},{'TRUE' if i % 2 else 'false'}\n" for i, day in enumerate(days))
    )
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n1,2\n2,3\n")
    dataset = load(str(tmp_path))
    assert dataset.feature_names == ["born", "active"]
    assert {"'born' of nodes.csv: dates.", "'active' of nodes.csv: true or false."} <= {
        *sentences(dataset, "understood")
    }
    born, active = dataset.graph.x.to_dense().T
    hours = np.array([0, 36, 60, 96])
    np.testing.assert_allclose(born, (hours - hours.mean()) / hours.std(), atol=1e-6)
    np.testing.assert_allclose(active, [-1, 1, -1, 1])
    # New nodes are read as the old ones were, from whatever file.
    new = pa.table({"born": [datetime(2020, 1, 2, 12)], "active": [True]})
    np.testing.assert_allclose(dataset.reading.encoder.encode(new).toarray(), [[born[1], 1]], atol=1e-6)


@pytest.mark.parametrize("extra", [[], ["26,soon,\n"]])
def test_a_cell_that_is_no_date_counts_as_missing(tmp_path, extra):
    rows = [f"{i},2021-03-{i + 1:02},\n" for i in range(24)] + ["24,2021-13-01,\n", "25,,\n", *extra]
    (tmp_path / "nodes.csv").write_text("id,born,empty\n" + "".join(rows))
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n")
    dataset = load(str(tmp_path))
    assert dataset.feature_names == ["born", "born is missing"]
    assert dataset.graph.x.to_dense()[:, 1].tolist() == [0.0] * 24 + [1.0] * (2 + len(extra))
    told = f"no dates, and count as missing: {1 + len(extra)}, '2021-13-01' in row 25 first"
    assert told in " ".join(sentences(dataset, "repaired"))


def test_cells_of_new_nodes_that_give_no_number_are_told(tmp_path):
    old = tables(tmp_path / "old", "id,age\n" + "".join(f"n{i},{i}\n" for i in range(30)), "source,target\nn0,n1\n")
    new = tables(tmp_path / "new", "id,age\na,12\nb,old\nc,inf\nd,\n", "source,target\na,b\n")
    dataset = load_files(new, fitted=load_files(old).reading.encoder)
    told = "Cells in column 'age' of nodes.csv that are no numbers, and count as missing: 2, 'old' in row 2 first."
    assert told in sentences(dataset, "repaired")


def test_infinite_cells_are_told(tmp_path):
    folder = tables(tmp_path, "", "source,target\na,b\n")
    (folder / "nodes.csv").unlink()
    sizes = [1.0, float("nan"), float("-inf"), None]
    pq.write_table(pa.table({"id": list("abcd"), "size": sizes}), folder / "nodes.parquet")
    told = "Cells in column 'size' of nodes.parquet that are infinite, and count as missing: 1, -inf in row 3 first."
    assert told in sentences(load_files(folder), "repaired")


def tables(folder, nodes, edges):
    folder.mkdir(exist_ok=True)
    (folder / "nodes.csv").write_text(nodes)
    (folder / "edges.csv").write_text(edges)
    return folder


def test_a_word_for_nothing_is_no_value_but_may_be_an_id(tmp_path):
    (tmp_path / "nodes.csv").write_text("id,size,kind,label\nNA,1,None,x\nDE,NULL,big,y\nFR,3,big,n/a\n")
    (tmp_path / "edges.csv").write_text("source,target\nNA,DE\nDE,FR\nDE,NULL\n,FR\n")
    dataset = load(str(tmp_path))
    assert dataset.graph.ids.tolist() == ["NA", "DE", "FR"]  # no country NULL
    assert dataset.graph.n_edges == 2
    assert dataset.feature_names == ["size", "size is missing", "kind=big"]
    assert dataset.y.tolist() == [0, 1, -1]
    frame = pd.DataFrame({"id": ["a", "b"], "kind": pd.Categorical(["None", "big"]), "v": [1, 2]})
    assert Graph.from_pandas(frame, pd.DataFrame({"source": ["a"], "target": ["b"]})).n_features == 2


@pytest.mark.parametrize("before", ["\n", "\r\n\n"])
def test_empty_lines_before_the_header_are_skipped(tmp_path, before):
    (tmp_path / "nodes.csv").write_bytes((before + "id,v\na,1\nb,2\n").encode())
    (tmp_path / "edges.csv").write_bytes((before + "source,target\na,b\n").encode())
    assert load(str(tmp_path)).graph.ids.tolist() == ["a", "b"]


def test_lines_are_counted_as_an_editor_does_after_comments_too(tmp_path):
    (tmp_path / "edges.tsv").write_text("# one\n# two\nsource\ttarget\na\tb\n\n# more\nb\tc\td\n")
    with pytest.raises(UserError, match=r"line 7: expected 2 cells, found 3"):
        load(str(tmp_path / "edges.tsv"))


def test_an_encoding_may_be_written_in_capitals(folder):
    for name, text in (("nodes", NODES), ("edges", EDGES)):
        (folder / f"{name}.csv").write_text(text, encoding="utf-16")
    assert load(str(folder), options=Options(encoding="UTF-16")).graph.n == load(str(folder)).graph.n


def test_an_edge_list_with_comments_keeps_its_commas(tmp_path):
    (tmp_path / "edges.txt").write_text("# roads\nfrom,to\nNew York,Paris\nParis,Oslo\n")
    assert load(str(tmp_path / "edges.txt")).graph.ids.tolist() == ["New York", "Paris", "Oslo"]
    (tmp_path / "edges.txt").write_bytes(b"# roads\na b\n" + b"b c\n" * 300_000 + "c ö\n".encode("latin-1"))
    with pytest.raises(UserError, match=r"line 300003, column 3 is not utf-8"):
        load(str(tmp_path / "edges.txt"))


@pytest.mark.parametrize("text", ["0 1\n1 2\n2 5\n", "# from SNAP\n# nodes: 4\n0\t1\n1\t2\n2\t5\n", "0,1\n1,2\n2,5\n"])
def test_an_edge_list_without_a_header(tmp_path, text):
    (tmp_path / "roads.txt").write_text(text)
    dataset = load(str(tmp_path / "roads.txt"))
    assert dataset.graph.ids.tolist() == [0, 1, 2, 5]
    assert dataset.graph.n_edges == 3
    assert any("structural" in sentence for sentence in sentences(dataset))


def test_names_of_columns_can_be_told(folder):
    (folder / "nodes.csv").write_text("who,key,kind\nx,ann,1\ny,bob,2\nz,cy,1\n")
    (folder / "edges.csv").write_text("n,a,b\n1,ann,bob\n2,bob,cy\n")
    options = Options(id="key", source="a", target="b", label="kind", columns=("who=category",))
    dataset = load(str(folder), options=options)
    assert dataset.graph.ids.tolist() == ["ann", "bob", "cy"]
    assert dataset.y.tolist() == [0, 1, 0]
    assert dataset.feature_names == ["who=x", "who=y", "who=z"]


def test_ids_that_look_like_numbers_stay_what_they_are(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\n007,7\n7,10\n")
    assert load(str(tmp_path)).graph.ids.tolist() == ["007", "7", "10"]


def test_points_without_edges(tmp_path):
    rng = np.random.default_rng(0)
    rows = "".join(f"p{i},{a:.3f},{b:.3f}\n" for i, (a, b) in enumerate(rng.normal(size=(40, 2))))
    (tmp_path / "points.csv").write_text("id,a,b\n" + rows)
    dataset = load(str(tmp_path / "points.csv"), options=Options(knn_graph=3))
    unit = dataset.graph.x / dataset.graph.x.norm(dim=1, keepdim=True)
    near = (unit @ unit.T).fill_diagonal_(-2).topk(3, dim=1).indices
    linked = set(map(tuple, dataset.graph.edge_index.T.tolist()))
    assert {(i, int(j)) for i in range(40) for j in near[i]} <= linked
    assert len(linked) <= 2 * 3 * 40


def test_arrays_of_features(folder):
    (folder / "nodes.csv").unlink()
    (folder / "edges.csv").write_text("source,target\n0,1\n1,2\n")
    features = sp.random_array((4, 6), density=0.5, format="csr", rng=np.random.default_rng(0))
    sp.save_npz(folder / "features.npz", features)
    graph = load(str(folder)).graph
    assert graph.n == 4
    np.testing.assert_allclose(graph.x.to_dense(), features.toarray(), rtol=1e-6)


def test_a_matrix_of_scipy_is_a_graph(tmp_path):
    matrix = sp.csr_array(np.array([[0, 1.0, 0], [0, 0, 2.0], [0, 0, 0]]))
    sp.save_npz(tmp_path / "roads.npz", matrix)
    assert load(str(tmp_path / "roads.npz")).graph.n_edges == 2


@pytest.mark.parametrize("form", ["graphml", "gexf"])
def test_graphs_of_networkx(tmp_path, form):
    graph = nx.karate_club_graph()
    for node, data in graph.nodes(data=True):
        data["age"] = float(node % 7)
    getattr(nx, f"write_{form}")(graph, tmp_path / f"club.{form}")
    dataset = load(str(tmp_path / f"club.{form}"))
    assert (dataset.graph.n, dataset.graph.n_edges) == (34, 78)
    assert "age" in dataset.feature_names
    assert any(name.startswith("club=") for name in dataset.feature_names)


def test_a_data_of_pyg(tmp_path):
    data = Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1], [1, 2]]), y=torch.tensor([2, 0, 2]))
    torch.save(data.to_dict(), tmp_path / "graph.pt")
    dataset = load(str(tmp_path / "graph.pt"))
    assert torch.equal(dataset.graph.x.to_dense(), torch.eye(3))
    assert dataset.y.tolist() == [1, 0, 1]
    assert dataset.reading.classes == ["0", "2"]


def test_frames_of_pandas():
    nodes = pd.DataFrame({"age": [30, 41, 25], "city": ["Rome", "Oslo", "Rome"]}, index=["a", "b", "c"])
    edges = pd.DataFrame({"source": ["a", "b"], "target": ["b", "c"]})
    graph = Graph.from_pandas(nodes, edges)
    assert graph.ids.tolist() == ["a", "b", "c"]
    assert graph.n_features == 3
    assert Graph.of((nodes, edges)).n_edges == 2
    named = nodes.rename_axis("key").reset_index()
    assert Graph.from_pandas(named, edges, columns={"city": "ignore"}).n_features == 1
    assert "3" in graph._repr_html_()


def test_structural_features_find_old_nodes_again():
    ring = np.array([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])
    both = np.concatenate([ring, ring[::-1]], axis=1)
    ids = np.array(list("abcdef"), dtype=object)
    structure = Structure.fit(both, ids)
    x = structure.encode(both, ids)
    assert x.shape == (6, len(structure.names))
    assert np.isfinite(x).all()
    order = np.array([3, 1, 5, 0, 2, 4])
    place = np.argsort(order)
    np.testing.assert_allclose(structure.encode(place[both], ids[order]), x[order], atol=1e-5)


def test_new_nodes_join_the_graph_they_are_linked_to(folder, tmp_path):
    old = load(str(folder))
    new_folder = tmp_path / "new"
    new_folder.mkdir()
    (new_folder / "nodes.csv").write_text("name,age,city,about\nnew,35,Rome,old maps\nbob,50,Oslo,wine\n")
    (new_folder / "edges.csv").write_text("from,to\nnew,ann\nnew,other\n")
    new = load_files(new_folder, fitted=old.reading.encoder)
    joined, own = join(old, new)
    assert joined.graph.ids[own].tolist() == ["new", "bob", "other"]
    assert joined.graph.n_edges == old.graph.n_edges + 2
    names = old.feature_names
    x, before = joined.graph.x.to_dense(), old.graph.x.to_dense()
    rows = {name: i for i, name in enumerate(joined.graph.ids)}
    assert torch.equal(x[rows["ann"]], before[0])  # named by an edge only: its features stay
    assert x[rows["bob"], names.index("city=Oslo")] == 1  # listed again
    assert x[rows["new"], names.index("city=Rome")] == 1


def test_a_check_says_what_is_suspicious(tmp_path):
    hub = "".join(f"hub,n{i}\n" for i in range(80))
    rows = "".join(f"n{i},{i % 2},{i % 2},1,{'ab'[i % 2]}\n" for i in range(200))
    (tmp_path / "nodes.csv").write_text("id,p,q,one,label\nhub,1,1,1,a\n" + rows)
    (tmp_path / "edges.csv").write_text("source,target\n" + hub)
    answer = check(load(str(tmp_path)))
    said = " ".join(note["text"] for note in answer["notes"] if note["kind"] == "suspicious")
    for part in ("without edges: 120", "linked to more than", "'hub'", "one value", "'one'", "repeat another"):
        assert part in said
    assert answer["homophily"] == pytest.approx(0.5)
    assert answer["components"] == 121


def weights_of(graph):
    names = graph.ids[graph.edge_index.numpy()]
    return {(a, b): round(w, 6) for a, b, w in zip(*names, graph.edge_weight.tolist(), strict=True) if a < b}


def test_weights_of_edges_are_read_added_and_told(folder):
    (folder / "edges.csv").write_text("from,to,weight\nann,bob,1\nann,bob,3\nbob,cy,2\ncy,dee,0\nann,cy,9999\n")
    dataset = load(str(folder))
    assert weights_of(dataset.graph) == {("ann", "bob"): 2, ("bob", "cy"): 1, ("ann", "cy"): 4999.5}
    told = " ".join(sentences(dataset))
    assert "counts by its weight in 'weight', in units of their mean" in told
    assert "that were there before, and whose weights are added: 1." in told
    assert "whose weight is no number above 0, and are left out: 1." in told
    assert load(str(folder), options=Options(weight="none")).graph.edge_weight is None
    assert "logarithms of such weights" in " ".join(sentences(dataset, "suspicious"))


def test_weights_of_a_matrix_may_be_ignored(tmp_path):
    file = tmp_path / "matrix.npz"
    sp.save_npz(file, sp.csr_array(np.array([[0, 1, 0], [1, 0, 2], [0, 2, 0]])))
    assert sorted(load(str(file)).graph.edge_weight.tolist()) == [1, 1, 2, 2]
    assert load(str(file), options=Options(weight="none")).graph.edge_weight is None


def test_weights_that_are_all_alike_make_no_difference(folder):
    (folder / "edges.csv").write_text("from,to,strength\nann,bob,3\nbob,cy,3\n")
    dataset = load(str(folder), options=Options(weight="strength"))
    assert dataset.graph.edge_weight is None
    assert "all alike, so they make no difference" in " ".join(sentences(dataset))


def test_a_label_below_0_of_a_pyg_file_is_none(tmp_path):
    file = tmp_path / "data.pt"
    torch.save({"x": torch.eye(3), "edge_index": torch.tensor([[0, 1], [1, 2]]), "y": torch.tensor([4, -1, 2])}, file)
    dataset = load(str(file))
    assert dataset.y.tolist() == [1, -1, 0]
    assert dataset.n_classes == 2


def test_weights_of_a_pyg_file(tmp_path):
    edges, weight = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.tensor([1.0, 1.0, 2.0, 2.0])
    file = tmp_path / "data.pt"
    torch.save({"x": torch.eye(3), "edge_index": edges, "edge_weight": weight}, file)
    assert load(str(file)).graph.edge_weight.tolist() == weight.tolist()
    assert load(str(file), options=Options(weight="none")).graph.edge_weight is None
    torch.save({"x": torch.eye(3), "edge_index": edges, "edge_weight": weight[:2]}, file)
    with pytest.raises(UserError, match=r"4 edges in .*, but 2 weights"):
        load(str(file))


def test_new_edges_keep_their_weights_beside_those_of_the_training(folder, tmp_path):
    (folder / "edges.csv").write_text("from,to,weight\nann,bob,2\nbob,cy,4\ncy,ann,6\n")
    old = load(str(folder))
    new = tmp_path / "new"
    new.mkdir()
    (new / "nodes.csv").write_text("name,age,city,about,label\neve,50,Rome,maps,a\n")
    (new / "edges.csv").write_text("from,to,weight\neve,ann,10\nann,bob,8\n")
    fitted = fitted_from_json(old.reading.encoder.as_json())
    joined, _ = join(old, load_files(new, fitted=fitted))
    assert weights_of(joined.graph) == {("ann", "bob"): 4, ("bob", "cy"): 2, ("ann", "cy"): 3, ("ann", "eve"): 5}
    (new / "edges.csv").write_text("from,to\neve,ann\n")
    joined, _ = join(old, load_files(new, fitted=fitted))
    assert weights_of(joined.graph)["ann", "eve"] == 2  # the mean of the others


def test_an_edge_that_is_there_twice_weighs_twice_also_where_weights_are_all_alike(folder):
    (folder / "edges.csv").write_text("from,to,weight\nann,bob,3\nbob,cy,3\nbob,cy,3\n")
    dataset = load(str(folder))
    assert weights_of(dataset.graph) == {("ann", "bob"): 1.5, ("bob", "cy"): 3}
    told = " ".join(sentences(dataset))
    assert "so they make no difference but where an edge is there more than once." in told
    assert "that were there before, and whose weights are added: 1." in told
    (folder / "edges.csv").write_text("from,to,weight\nann,bob,3\nbob,cy,2\nbob,cy,1\n")
    assert load(str(folder)).graph.edge_weight is None
    (folder / "edges.csv").write_text("from,to\nann,bob\nbob,cy\nbob,cy\n")
    dataset = load(str(folder))
    assert dataset.graph.edge_weight is None
    assert "count once: 1." in " ".join(sentences(dataset))
