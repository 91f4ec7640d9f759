"""Checked by mypy: public names have types, although they are imported at first use."""

from typing import Any, assert_type

from afgrl import AFGRL, Dataset, Graph, check, compare, from_pandas, knn_graph, load

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
