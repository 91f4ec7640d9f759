"""Sums over runs of rows, and how an ONNX graph adds them up.

What ONNX has for it does not serve: with two threads onnxruntime 1.31 loses summands in ScatterND where an index
repeats (sums of 31 normal values were wrong by up to 5), and ScatterElements, which is right, takes 50 times as long as
that and an index as large as the rows. So the rows lie in the order of their runs, and neighbors in a run are added in
pairs until each run is one row, in as many rounds as the length of the longest has binary digits.
"""

from __future__ import annotations

from typing import Any

import onnxscript
import torch
from onnxscript import FLOAT, INT64
from torch import Tensor

op: Any = onnxscript.opset18  # its types know nothing of + and >, which the script translates


@torch.library.custom_op("afgrl::sum_runs", mutates_args=())
def sum_runs(rows: Tensor, place: Tensor, count: int) -> Tensor:
    """The sums of ``count`` runs, [count, d], of ``rows`` [m, d] whose ``place`` [m] in their run is 0, 1, 2, …"""
    run = (place == 0).cumsum(0) - 1
    return rows.new_zeros(count, rows.shape[1]).index_add_(0, run, rows)


@sum_runs.register_fake
def _(rows: Tensor, place: Tensor, count: int) -> Tensor:
    return rows.new_empty(count, rows.shape[1])


@onnxscript.script()
def SumRuns(rows: FLOAT, place: INT64, count: INT64) -> FLOAT:
    more = op.ReduceMax(place, keepdims=0) > 0
    while more:
        even = op.Squeeze(op.NonZero(op.Mod(place, 2) == 0), [0])
        follower = op.Min(even + 1, op.Shape(place) - 1)
        is_pair = op.Unsqueeze(op.Gather(place, follower) > op.Gather(place, even), [1])
        rows = op.Gather(rows, even) + op.Where(is_pair, op.Gather(rows, follower), 0.0)
        place = op.Gather(place, even) / 2
        more = op.ReduceMax(place, keepdims=0) > 0
    return rows


TRANSLATION: dict[Any, Any] = {torch.ops.afgrl.sum_runs.default: SumRuns}
