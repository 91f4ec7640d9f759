"""Checked by mypy: public names have types, although they are imported at first use."""

from typing import Any, assert_type

import pandas as pd

from afgrl import (
    AFGRL,
    Dataset,
    Graph,
    NodePlot,
    add_nodes,
    check,
    cluster,
    compare,
    estimate,
    export_encoder,
    from_pandas,
    knn_graph,
    load,
    search,
)

dataset = load("people", id="email", label="team", source="from", columns={"zip": "category"}, knn_graph=15)
assert_type(dataset, Dataset)
load("people", labels="team")  # type: ignore[call-arg]
load("people", knn_graph="15")  # type: ignore[arg-type]
assert_type(check("people", id="email"), dict[str, Any])
assert_type(knn_graph([[1.0]], 3), Graph)
assert_type(compare([AFGRL(), "runs/mine"]), list[dict[str, Any]])
compare([3])  # type: ignore[list-item]
assert_type(AFGRL().fit(dataset), AFGRL)
from_pandas(1)  # type: ignore[call-arg]
assert_type(load((pd.DataFrame(), pd.DataFrame()), label="team"), Dataset)
assert_type(AFGRL().plot(color="age"), NodePlot)
assert_type(Graph([[1.0]], []).plot(), NodePlot)  # type: ignore[arg-type]
assert_type(estimate("people", settings={"n_components": 64}, id="email"), dict[str, Any])
assert_type(cluster("runs/mine", 5), dict[str, Any])
search("runs/mine", "ann", k="5")  # type: ignore[arg-type]
add_nodes(AFGRL(), "new.csv")
assert_type(export_encoder(AFGRL(), "model.onnx"), dict[str, str])
