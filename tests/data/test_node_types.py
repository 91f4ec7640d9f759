"""Several node tables become one graph with a column for the node type."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from sklearn.preprocessing import StandardScaler

from afgrl import UserError, load
from afgrl.data.describe import describe_dataset
from afgrl.data.files import load_files
from afgrl.data.join import join_graphs
from afgrl.data.tables.encode import TypedTableEncoder, table_encoder_from_json
from afgrl.data.tables.node_types import referred_type, sort_tables
from afgrl.data.tables.options import ReadOptions
from afgrl.runs.embeddings import read_parquet
from afgrl.runs.folder import Run
from tests.cli.test_commands import afgrl
from tests.data.tables import messages, weights_by_ids

USERS = "user_id,name,age,city\n1,ann,30,Rome\n2,bob,40,Oslo\n3,cy,,Rome\n"
ITEMS = "item_id,title,price\n1,pen,2\n2,ink,4\n9,cup,6\n"
RATINGS = "user_id,item_id,rating\n1,1,5\n1,2,3\n2,2,4\n3,9,1\n"


def write(folder, **files):
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text)
    return folder


def links(graph):
    return {
        (graph.ids[a], graph.ids[b]) for a, b in graph.edge_index.T.tolist() if str(graph.ids[a]) > str(graph.ids[b])
    }


@pytest.fixture
def shop(tmp_path):
    return write(tmp_path / "shop", users=USERS, items=ITEMS, ratings=RATINGS)


def test_several_node_tables_become_one_graph(shop):
    dataset = load(shop)
    graph = dataset.graph
    assert graph.ids.tolist() == ["items:1", "items:2", "items:9", "users:1", "users:2", "users:3"]
    assert links(graph) == {
        ("users:1", "items:1"), ("users:1", "items:2"), ("users:2", "items:2"), ("users:3", "items:9"),
    }  # fmt: skip
    columns = dataset.ingested.columns
    assert columns["type"].to_pylist() == ["items"] * 3 + ["users"] * 3
    assert columns["name"].to_pylist() == dataset.node_names.tolist() == ["pen", "ink", "cup", "ann", "bob", "cy"]
    assert columns["users.age"].to_pylist() == [None] * 3 + [30, 40, None]
    assert not dataset.ingested.numbered


def test_each_type_has_its_own_block_of_features(shop):
    dataset = load(shop)
    names = ["items.price", "users.age", "users.age is missing", "users.city=Oslo", "users.city=Rome"]
    assert dataset.feature_names == names
    x = dataset.graph.x.to_dense().numpy()
    assert not x[:3, 1:].any()
    assert not x[3:, 0].any()
    np.testing.assert_allclose(x[:3, 0], StandardScaler().fit_transform([[2], [4], [6]])[:, 0], rtol=1e-6)
    assert x[3:, 1:].tolist() == [[-1, 0, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1]]


def test_the_type_is_the_label_unless_a_table_has_one(tmp_path, shop):
    dataset = load(shop)
    assert (dataset.ingested.label, dataset.ingested.classes) == ("type", ["items", "users"])
    assert dataset.y.tolist() == [0, 0, 0, 1, 1, 1]
    assert not any("homophily" in message["text"] for message in describe_dataset(dataset)["messages"])
    assert load(shop, options=ReadOptions(label="none")).y is None
    dataset = load(shop, options=ReadOptions(label="city"))
    assert (dataset.ingested.label, dataset.ingested.classes) == ("city", ["Oslo", "Rome"])
    assert dataset.y.tolist() == [-1, -1, -1, 1, 0, 1]
    assert not any("city" in name for name in dataset.feature_names)
    with pytest.raises(UserError, match=r"^There is no column 'color' in items.csv and users.csv\.$"):
        load(shop, options=ReadOptions(label="color"))
    both = write(tmp_path / "both", users="id,label\na,x\nb,y\n", items="id,label\np,y\nq,\n",
                 edges="user_id,item_id\na,p\nb,q\n")  # fmt: skip
    dataset = load(both)
    assert dataset.ingested.columns["label"].to_pylist() == ["y", None, "x", "y"]
    assert dataset.y.tolist() == [1, -1, 0, 1]


def test_the_report_says_what_was_read(shop):
    assert messages(load(shop))[:9] == [
        "Files read: items.csv, users.csv, ratings.csv.",
        "Node ids: column 'item_id' of items.csv.",
        "Names shown beside the ids: column 'title' of items.csv; --name chooses another column, or none.",
        "Node ids: column 'user_id' of users.csv.",
        "Names shown beside the ids: column 'name' of users.csv; --name chooses another column, or none.",
        "Edges: columns 'user_id' (users) and 'item_id' (items) of ratings.csv.",
        "Ignored columns of ratings.csv: 'rating'.",
        "Ids that occur both in 'items' and in 'users' are made distinct: all ids have the form 'items:1'.",
        "Edges of ratings.csv in one direction only, used in both: 4.",
    ]
    assert "Node types: 'items' (3), 'users' (3); each has its own features." in messages(load(shop), "info")


def test_distinct_ids_stay_as_they_are(tmp_path):
    folder = write(tmp_path / "graph", authors="id,age\nann,3\nbob,4\n", papers="id,year\np1,1990\np2,2000\n",
                   edges="source,target\nann,p1\np2,p1\nbob,p2\n")  # fmt: skip
    dataset = load(folder)
    assert dataset.graph.ids.tolist() == ["ann", "bob", "p1", "p2"]
    assert links(dataset.graph) == {("p1", "ann"), ("p2", "p1"), ("p2", "bob")}
    assert dataset.ingested.classes == ["authors", "papers"]


def test_an_end_without_a_type_must_not_have_an_ambiguous_id(tmp_path):
    folder = write(tmp_path / "graph", users="id,age\n1,3\n2,4\n", items="id,price\n2,3\n3,5\n",
                   edges="source,target\n1,3\n")  # fmt: skip
    assert links(load(folder).graph) == {("users:1", "items:3")}
    (folder / "edges.csv").write_text("source,target\n1,3\n1,2\n")
    with pytest.raises(UserError) as error:
        load(folder)
    assert str(error.value) == (
        "The id '2' in column 'target' of edges.csv occurs in several node types, 'items', 'users'; name the column "
        "after its type, such as items_id, or write 'items:2'."
    )
    (folder / "edges.csv").write_text("source,target\n1,3\n1,items:2\n")
    assert links(load(folder).graph) == {("users:1", "items:3"), ("users:1", "items:2")}


def test_nodes_of_edges_have_the_type_of_their_column(tmp_path):
    folder = write(tmp_path / "graph", users=USERS, items="item_id,price\n7,2\n8,3\n",
                   ratings="user_id,item_id\n1,7\n5,8\n2,1\n")  # fmt: skip
    dataset = load(folder)  # item 1 has no row, and is not user 1
    assert dataset.graph.ids.tolist()[-2:] == ["users:5", "items:1"]
    assert dataset.ingested.columns["type"].to_pylist()[-2:] == ["users", "items"]
    assert dataset.ingested.n_listed == 5
    missing = dataset.feature_names.index("users.age is missing")
    assert dataset.graph.x.to_dense()[:, missing].tolist() == [0, 0, 0, 0, 1, 1, 0]


def test_several_edge_tables_have_weights_of_the_same_mean(tmp_path, shop):
    write(shop, ratings="user_id,item_id,weight\n1,1,10\n1,2,30\n", friend_links="user_id,friend_user_id\n1,2\n2,3\n")
    dataset = load(shop)
    assert weights_by_ids(dataset.graph) == {
        ("items:1", "users:1"): 0.25, ("items:2", "users:1"): 0.75, ("users:1", "users:2"): 0.5,
        ("users:2", "users:3"): 0.5,
    }  # fmt: skip


def test_types_without_columns_have_structural_features(tmp_path):
    folder = write(tmp_path / "graph", users="user_id\n1\n2\n", items="item_id\n1\n2\n",
                   ratings="user_id,item_id\n1,1\n2,2\n2,1\n")  # fmt: skip
    dataset = load(folder)
    assert dataset.feature_names[0] == "degree"
    again = table_encoder_from_json(json.loads(json.dumps(dataset.graph.table_encoder.as_json())))
    assert again == dataset.graph.table_encoder
    new = write(tmp_path / "new", users="user_id\n3\n", ratings="user_id,item_id\n3,2\n")
    joined, own = join_graphs(dataset, load_files(new, fitted=again))
    assert joined.graph.ids[own].tolist() == ["users:3"]
    assert joined.graph.x[own, 0] == joined.graph.x[2, 0]  # users:1 has one edge too


def test_a_run_of_typed_tables_embeds_new_nodes(tmp_path, shop):
    small = ("--set", "steps=2", "--set", "n_components=4", "--set", "n_clusters=2", "--quiet", "--device", "cpu")
    answer = afgrl("fit", shop, "--out", tmp_path / "run", *small)
    assert answer.exit_code == 0, answer.stderr
    assert afgrl("evaluate", tmp_path / "run", "--device", "cpu").exit_code == 0
    assert isinstance(Run.open(tmp_path / "run").dataset().graph.table_encoder, TypedTableEncoder)
    new = write(tmp_path / "new", users="user_id,name,age,city\n4,dee,50,Oslo\n", ratings="user_id,item_id\n4,9\n4,2\n")
    answer = afgrl("embed", tmp_path / "run", "--graph", new, "--out", tmp_path / "new.parquet")
    assert answer.exit_code == 0, answer.stderr
    assert "Joined with the training graph by id: 2 of the 3 nodes" in " ".join(answer.stderr.split())
    ids, vectors = read_parquet(tmp_path / "new.parquet")
    assert list(ids) == ["users:4"]
    assert np.isfinite(vectors).all()


def test_new_nodes_need_the_types_of_training(tmp_path, shop):
    typed = load(shop).graph.table_encoder
    (tmp_path / "nodes.csv").write_text("id,age\n7,3\n")
    with pytest.raises(UserError, match=r"several node types; pass a folder with tables named after them: 'items', 'u"):
        load_files(tmp_path / "nodes.csv", fitted=typed, needs_edges=False)
    other = write(tmp_path / "other", shops="shop_id,size\n1,2\n")
    with pytest.raises(UserError, match=r"other has no table of edges between its node tables \(none\)\.$"):
        load_files(other, fitted=typed, needs_edges=False)
    plain = load(write(tmp_path / "plain", nodes="id,age\n1,2\n2,3\n", edges="source,target\n1,2\n"))
    with pytest.raises(UserError, match=r"^The model was trained on one node table, but .* has several: items.csv, us"):
        load_files(shop, fitted=plain.graph.table_encoder)


def test_an_id_keeps_its_type(tmp_path):
    old = load(write(tmp_path / "old", users="id,age\na,3\nb,4\n", items="id,price\np,3\nq,5\n",
                     ratings="user_id,item_id\na,p\nb,q\n"))  # fmt: skip
    typed = old.graph.table_encoder
    new = load_files(write(tmp_path / "new", items="id,price\na,3\n"), fitted=typed, needs_edges=False)
    with pytest.raises(
        UserError, match=r"^The id 'a' is of type 'items' in 'new', but of type 'users' in the training"
    ):
        join_graphs(old, new)
    both = write(tmp_path / "both", users="id,age\nx,3\n", items="id,price\nx,3\n")
    with pytest.raises(UserError, match=r"^The id 'x' occurs in two node types, 'items' and 'users', but the ids of t"):
        load_files(both, fitted=typed, needs_edges=False)


@pytest.mark.parametrize(
    ("column", "node_type"),
    [
        ("user_id", "users"), ("userId", "users"), ("UserID", "users"), ("userid", "users"), ("user", "users"),
        ("from_user_id", "users"), ("movieId", "movies"), ("category_id", "categories"), ("person", "people"),
        ("users_age", None), ("id", None), ("source", None), ("", None),
    ],
)  # fmt: skip
def test_a_column_is_named_after_a_type(column, node_type):
    assert referred_type(column, ["users", "movies", "categories", "people"]) == node_type


def test_tables_are_sorted_by_name_and_columns():
    def sorted_files(**columns):
        tables = {
            Path(f"{name}.csv"): pa.table({column: ["1"] for column in own.split()}) for name, own in columns.items()
        }
        found = sort_tables(tables)
        return set(found.nodes), set(found.edges), set(found.ignored)

    assert sorted_files(papers="id year", authors="id name", paper_author="paper_id author_id") == (
        {"papers", "authors"}, {"paper_author.csv"}, set())  # fmt: skip
    assert sorted_files(users="id", movies="movieId title", reviews="id userId movieId stars") == (
        {"users", "movies"}, {"reviews.csv"}, set())  # fmt: skip
    # A node table may refer to others.
    assert sorted_files(items="id seller_id shop_id", sellers="id", shops="id", orders="item_id seller_id shop_id") == (
        {"items", "sellers", "shops"}, {"orders.csv"}, set())  # fmt: skip
    assert sorted_files(nodes="id age", edges="source target", labels="id label") == (
        {"nodes"}, {"edges.csv"}, {"labels.csv"})  # fmt: skip
    assert sorted_files(users="id", items="id", ratings="user_id item_id", notes="text") == (
        {"users", "items"}, {"ratings.csv"}, {"notes.csv"})  # fmt: skip


@pytest.mark.parametrize(("role", "kind"), [("id", "node"), ("source", "edge"), ("target", "edge"), ("weight", "edge")])
def test_a_given_column_must_be_in_a_table(shop, role, kind):
    with pytest.raises(UserError, match=rf"^There is no column 'other' in any {kind} table\.$"):
        load(shop, options=ReadOptions(**{role: "other"}))


def test_ends_can_be_given(shop):
    write(shop, ratings="user_id,first_item_id,second_item_id\n1,1,2\n2,9,1\n")
    options = ReadOptions(source="first_item_id", target="second_item_id")
    assert links(load(shop, options=options).graph) == {("items:2", "items:1"), ("items:9", "items:1")}
    assert links(load(shop, options=ReadOptions(target="second_item_id")).graph) == {
        ("users:1", "items:2"), ("users:2", "items:1"),
    }  # fmt: skip


def test_options_name_columns_of_one_table(shop):
    dataset = load(shop, options=ReadOptions(columns=("users.age=ignore", "price=category")))
    assert dataset.feature_names == [
        "items.price=2",
        "items.price=4",
        "items.price=6",
        "users.city=Oslo",
        "users.city=Rome",
    ]
    with pytest.raises(UserError, match=r"^There is no column 'users.price' in any node table\.$"):
        load(shop, options=ReadOptions(columns=("users.price=number",)))


@pytest.mark.parametrize(
    ("ratings", "message"),
    [
        ("who,what,when\n1,1,5\n", "The columns of rating_links.csv do not tell which nodes its edges link; name two"),
        ("user_id,item_id\nx,1\n", "None of the ids in column 'user_id' of rating_links.csv, such as 'x', is an id of"),
    ],
)
def test_edges_that_link_nothing_are_one_sentence(tmp_path, ratings, message):
    folder = write(tmp_path / "shop", users=USERS, items=ITEMS, rating_links=ratings)
    with pytest.raises(UserError) as error:
        load(folder)
    assert str(error.value).startswith(message)


def test_nearest_neighbors_of_several_types_are_refused(shop):
    with pytest.raises(UserError, match=r"^--knn-graph links the rows of one node table, but .*shop has several\.$"):
        load(shop, options=ReadOptions(knn_graph=3))
