"""Small tables that several tests use."""

NODES = """name,age,city,about,label
ann,30,Paris,likes long walks and old maps,a
bob,41,Rome,likes maps and good wine,b
cy,,Paris,reads about old wine and walks,a
dee,29,Oslo,draws maps of long rivers,
"""
EDGES = "from,to\nann,bob\nbob,cy\nzed,dee\n"


def write_tables(folder, nodes=NODES, edges=EDGES):
    folder.mkdir(exist_ok=True)
    (folder / "nodes.csv").write_text(nodes)
    (folder / "edges.csv").write_text(edges)
    return folder


def messages(dataset, level=None):
    return [message.text for message in dataset.ingested.report.messages if level in (None, message.level)]


def weights_by_ids(graph):
    ids = graph.ids[graph.edge_index.numpy()]
    return {(a, b): round(w, 6) for a, b, w in zip(*ids, graph.edge_weight.tolist(), strict=True) if a < b}
