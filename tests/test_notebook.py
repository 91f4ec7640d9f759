"""Pictures for notebooks, and the selection that comes back from them."""

import nbformat
import numpy as np
import pandas as pd
import pytest
from nbclient import NotebookClient

from afgrl import Graph, RawFeatures, UserError, load
from afgrl.estimators import picture
from afgrl.notebook import MAX_GROUPS, OTHERS, plot_points


@pytest.fixture
def people():
    return pd.DataFrame(
        {
            "email": [f"p{i}@x.org" for i in range(30)],
            "name": [f"Person <{i}>" for i in range(30)],
            "age": [20 + i for i in range(30)],
            "city": [["Rome", "Oslo", None][i % 3] for i in range(30)],
            "team": [["red", "blue"][i % 2] for i in range(30)],
        }
    )


@pytest.fixture
def model(people):
    calls = pd.DataFrame({"source": people.email, "target": np.roll(people.email, 2)})
    return RawFeatures(device="cpu").fit(load((people, calls), id="email", name="name", label="team"))


def select(plot, *chosen, event="plotly_selected"):
    """The message that the browser sends after a selection: pairs (trace, point)."""
    traces, points = zip(*chosen, strict=True) if chosen else ((), ())
    zeros = [0] * len(chosen)
    found = {"xs": zeros, "ys": zeros, "point_indexes": list(points), "trace_indexes": list(traces)}
    selector = {"type": "box", "selector_state": {"xrange": [0, 1], "yrange": [0, 1]}}
    message = {"event_type": event, "points": found, "device_state": None, "selector": selector}
    plot.widget.set_state({"_js2py_pointsCallback": message})


def names_of(plot):
    return [trace.name for trace in plot.widget.data]


def test_a_selection_in_the_browser_is_known_in_python(model):
    plot = model.plot(projection="pca")
    heard = []
    plot.on_select(lambda ids: heard.append(ids.tolist()))
    assert names_of(plot) == ["blue", "red"]
    assert plot.selected_ids.tolist() == []
    select(plot, (1, 0), (0, 3), (1, 2))  # red has the even rows, blue the odd ones
    assert plot.selected_ids.tolist() == ["p0@x.org", "p4@x.org", "p7@x.org"]
    select(plot, (0, 0))
    assert plot.selected_ids.tolist() == ["p1@x.org"]
    select(plot, event="plotly_deselect")
    assert plot.selected_ids.tolist() == []
    assert heard == [["p0@x.org", "p4@x.org", "p7@x.org"], ["p1@x.org"], []]


def test_the_points_are_those_of_the_projection(model):
    plot = model.plot(color="city", projection="pca")
    drawn = np.empty((30, 2))
    for rows, trace in zip(plot.groups, plot.widget.data, strict=True):
        drawn[rows] = np.stack([trace.x, trace.y], 1)
    assert np.array_equal(drawn, model._projections["pca"])
    assert names_of(plot) == ["Oslo", "Rome", "no value"]
    assert plot.widget.data[1].text[1] == "Person &lt;3> (p3@x.org)<br>Rome"
    assert plot.widget.layout.title.text == "30 nodes, colored by city"


def test_what_a_map_can_be_colored_by(model):
    (ages,) = model.plot(color="age", projection="pca").widget.data
    assert ages.marker.color.tolist() == [20 + i for i in range(30)]
    assert names_of(model.plot(color="label", projection="pca")) == ["blue", "red"]
    clusters = model.cluster(2)
    plot = model.plot(projection="pca")
    assert names_of(plot) == ["0", "1"]
    assert plot.groups[1].tolist() == np.flatnonzero(clusters == 1).tolist()
    assert names_of(model.plot(color=np.arange(30) % 3, projection="pca")) == ["0", "1", "2"]
    with pytest.raises(UserError, match=r"Unknown color 'agee'; did you mean 'age'\?"):
        model.plot(color="agee", projection="pca")
    with pytest.raises(UserError, match="30 nodes, but the colors have shape"):
        model.plot(color=[1, 2], projection="pca")
    with pytest.raises(UserError, match="possible values: pca, tsne"):
        model.plot(projection="umap")


def test_a_large_map_is_a_sample_and_says_so(model, monkeypatch):
    monkeypatch.setattr(picture, "MAX_POINTS", 10)
    plot = model.plot(projection="pca")
    assert plot.widget.layout.title.text == "A random sample of 10 of 30 nodes, colored by label"
    select(plot, (1, 0))
    row = model.node_ids_.tolist().index(plot.selected_ids[0])
    assert plot.widget.data[1].x[0] == model._projections["pca"][row, 0]


def test_many_groups_end_in_one_of_the_rarest():
    values = [f"g{i}" for i in range(MAX_GROUPS + 20)] * 2 + ["g3"]
    n = len(values)
    plot = plot_points(np.zeros((n, 2)), np.arange(n), title="many", color=values)
    assert len(plot.groups) == MAX_GROUPS
    assert (names_of(plot)[-1], len(plot.groups[-1])) == (OTHERS, 2 * 21)
    assert sorted(np.concatenate(plot.groups).tolist()) == list(range(n))


@pytest.mark.parametrize("directed", [False, True])
def test_a_small_graph_is_drawn_whole(directed):
    graph = Graph(np.eye(4), [[0, 2], [1, 1]], ids=list("abcd"), directed=directed)
    plot = graph.plot(color=["x", "y", "x", "y"])
    lines, *nodes = plot.widget.data
    assert plot.widget.layout.title.text == "4 nodes, 2 edges"
    place = {}
    for rows, trace in zip(plot.groups, nodes, strict=True):
        place |= {(x, y): plot.ids[row] for row, x, y in zip(rows, trace.x, trace.y, strict=True)}
    ends = [place.get(end) for end in zip(lines.x, lines.y, strict=True)]
    assert ends == ["a", "b", None, "b", "c", None]
    select(plot, (1, 1))
    assert plot.selected_ids.tolist() == ["c"]


def test_of_a_large_graph_a_connected_sample_is_drawn():
    ring = np.arange(1000)
    hub = np.stack([np.zeros(500, int), np.arange(200, 700)])
    graph = Graph(np.ones((1000, 1)), np.concatenate([np.stack([ring, np.roll(ring, 1)]), hub], 1))
    plot = graph.plot(max_nodes=50, color=np.linspace(0, 1, 1000))
    assert plot.widget.layout.title.text.startswith("A sample of 50 of 1,000 nodes, ")
    assert int(plot.widget.layout.title.text.split(", ")[-1].split()[0]) >= 49  # a tree of 50 nodes has 49 edges
    assert plot.widget.data[1].marker.color.tolist() == np.linspace(0, 1, 1000)[plot.ids].tolist()
    assert len(Graph(np.ones((9, 1)), np.empty((2, 0), int)).plot(max_nodes=4).ids) == 4
    with pytest.raises(UserError, match="max_nodes must be at least 1"):
        graph.plot(max_nodes=0)


def test_a_notebook_shows_the_widget():
    code = (
        "import numpy as np\nfrom afgrl import Graph, RawFeatures\n"
        "graph = Graph(np.eye(6), [[0, 1, 2], [1, 2, 3]])\n"
        "RawFeatures(device='cpu').fit(graph).plot(projection='pca')"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    (output,) = notebook.cells[0].outputs
    assert "application/vnd.jupyter.widget-view+json" in output["data"]
    states = notebook.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"].values()
    (traces,) = [one["state"]["_widget_data"] for one in states if one["state"].get("_widget_data")]
    assert traces[0]["text"] == ["0", "1", "2", "3", "4", "5"]
