"""The first row of a table of edges: column names, or an edge."""

import numpy as np
import pytest

from afgrl import UserError, load
from tests.data.tables import messages

ENDS = [("ann", "bob"), ("bob", "cy"), ("cy", "ann"), ("ann", "dee"), ("dee", "bob")]
SORTED = sorted((f"w{i}", f"w{i * 7 % 30}") for i in range(30) if i != i * 7 % 30)


def write(tmp_path, rows, header=None, name="edges.csv", sign=","):
    lines = [sign.join(map(str, row)) for row in ([header] if header else []) + list(rows)]
    (tmp_path / name).write_text("\n".join(lines) + "\n")
    return tmp_path / name


def links(graph):
    return {frozenset((str(graph.ids[a]), str(graph.ids[b]))) for a, b in graph.edge_index.T.tolist()}


def as_links(rows):
    return {frozenset(map(str, row[:2])) for row in rows}


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        (("word", "synonym"), [*ENDS, ("word", "ann"), ("synonym", "word")]),
        (("word", "next_word", "count"), [(*ends, i) for i, ends in enumerate([*ENDS, ("word", "next_word")])]),
        (("fromUser", "toUsers"), [*ENDS, ("fromUser", "ann")]),
        (("ann", "bob", "when"), [(*ends, f"2024-01-0{i + 1}") for i, ends in enumerate(ENDS)]),
        (("ann", "bob"), [(i, i + 1) for i in range(30)]),  # words above numbers
        (("xx", "yy"), ENDS),  # nowhere else
        (("xx", "w7"), SORTED),  # above rows in order
        (("from_stop", "to_stop", "2024"), [(*ends, i) for i, ends in enumerate(ENDS)]),
    ],
)
@pytest.mark.parametrize("form", [("edges.csv", ","), ("edges.txt", " "), ("edges.tsv", "\t")])
def test_a_header_is_no_edge(tmp_path, header, rows, form):
    path = write(tmp_path, rows, header, *form)
    assert links(load(path).graph) == as_links(rows)
    assert links(load(path, header="yes").graph) == as_links(rows)
    without = load(path, header="no")
    assert header[0] in without.graph.ids or header[2] == "count"  # a missing weight


@pytest.mark.parametrize(
    "rows",
    [
        ENDS,
        [("word", "ann"), ("ann", "synonym"), ("bob", "word")],  # only one cell is a name of a column
        [(*ends, 1 / (i + 1)) for i, ends in enumerate(ENDS)],
        [("u", "v", 3), ("v", "w", 4), ("w", "u", 5)],  # a number beside names
        [("a", "a"), ("a", "b"), ("b", "c")],  # a self-loop
        [("a", "b"), ("b", "c")],
        [*SORTED],
        [(1, 2), (2, 3)],
        [("x", "y", 1, ""), ("y", "z", 1, 7), ("z", "x", 2, 9)],  # a missing number
        [("user1", "user2"), ("user2", "user3"), ("user3", "user4")],
        [("customer", "order"), ("order", "item"), ("item", "product"), ("item", "part")],  # not only in the first row
    ],
)
def test_an_edge_is_no_header(tmp_path, rows):
    path = write(tmp_path, rows)
    assert links(load(path).graph) == as_links([row for row in rows if row[0] != row[1]])
    assert links(load(path, header="no").graph) == links(load(path).graph)
    if rows[0][0] != rows[0][1]:
        assert load(path, header="yes").graph.n_edges == len(rows) - 1


def test_below_a_header_signs_of_comments_begin_ids(tmp_path):
    rows = [("#a", "bob"), ("ann", "#a"), ("%x", "ann"), ("#c", "%x"), ("bob", "#c"), ("  #d", "ann")]
    path = write(tmp_path, rows, ("tag", "user"))
    dataset = load(path)
    assert links(dataset.graph) == as_links([(a.strip(), b) for a, b in rows])
    assert not messages(dataset, "warning")
    (tmp_path / "edges.csv").write_text("# made by hand\n" + path.read_text())
    assert load(path).graph.n_edges == 6
    path.write_text(path.read_text() + "# the end\n")
    with pytest.raises(
        UserError, match=r"line 9: expected 2 cells, found 1: '# the end'; a table with a header has no"
    ):
        load(path)
    assert links(load(write(tmp_path, [("#a", "#b"), ("#b", "#c")], ("#tag", "#other"))).graph) == as_links(
        [("#a", "#b"), ("#b", "#c")]
    )


def test_comments_that_may_be_edges_are_reported(tmp_path):
    path = write(tmp_path, [("#a", "bob"), ("bob", "cy"), ("#c", "cy"), ("cy", "dee")], ("#tag", "user"))
    dataset = load(path, header="no")
    assert dataset.graph.n_edges == 2
    (message,) = messages(dataset, "warning")
    assert message.startswith(
        "Lines of edges.csv that begin with # or % are read as comments, though they have as many"
    )
    assert "a row: 3, first in line 1; they are rows if the first line has column names (--header yes)." in message
    assert load(path, header="yes").graph.n_edges == 4
    path.write_text("# nodes: 3\n#FromNodeId,ToNodeId\n0,1\n#2,1\n1,2\n")
    assert not messages(load(path), "warning")
    assert load(path).graph.n_edges == 2


def test_the_header_of_the_only_table_can_be_missing(tmp_path):
    path = write(tmp_path, np.random.default_rng(0).integers(0, 9, (20, 3)), name="points.csv")
    assert load(path, knn_graph=3, header="no").graph.n == 20
    assert load(path, knn_graph=3).graph.n == 19
    write(tmp_path, [("a", 3), ("b", 4)], ("id", "age"), "nodes.csv")
    path = write(tmp_path, [("a", "b"), ("b", "a")], name="edges.csv")
    path.with_name("points.csv").unlink()
    assert load(tmp_path, header="no").graph.ids.tolist() == ["a", "b"]  # that of the edges


def test_header_is_yes_or_no(tmp_path):
    with pytest.raises(UserError, match=r"^Unknown header 'maybe'; possible values: no, yes\.$"):
        load(write(tmp_path, ENDS), header="maybe")
