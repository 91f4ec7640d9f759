"""Segment sums, and how an ONNX graph computes them.

The scatter operators of ONNX are no alternative: with two threads, ScatterND of onnxruntime 1.31 loses summands where
an index repeats (sums of 31 normal values were wrong by up to 5), and ScatterElements, which is correct, takes 50 times
as long and needs an index as large as the rows. So the rows are sorted by segment, and adjacent rows of a segment are
added in pairs until one row per segment is left: ⌈log2(longest segment)⌉ rounds.
"""

from __future__ import annotations

from typing import Any

import onnxscript
import torch
from onnxscript import FLOAT, INT64
from torch import Tensor

op: Any = onnxscript.opset18  # Any: its types do not declare + and >, which the script translates


@torch.library.custom_op("afgrl::segment_sum", mutates_args=())
def segment_sum(rows: Tensor, position: Tensor, n_segments: int) -> Tensor:
    """The sum of each segment, [n_segments, d], of ``rows`` [m, d]; ``position`` [m] counts 0, 1, 2, … per segment."""
    segment = (position == 0).cumsum(0) - 1
    return rows.new_zeros(n_segments, rows.shape[1]).index_add_(0, segment, rows)


@segment_sum.register_fake
def _(rows: Tensor, position: Tensor, n_segments: int) -> Tensor:
    return rows.new_empty(n_segments, rows.shape[1])


@onnxscript.script()
def SegmentSum(rows: FLOAT, position: INT64, n_segments: INT64) -> FLOAT:
    more = op.ReduceMax(position, keepdims=0) > 0
    while more:
        even = op.Squeeze(op.NonZero(op.Mod(position, 2) == 0), [0])
        follower = op.Min(even + 1, op.Shape(position) - 1)
        is_pair = op.Unsqueeze(op.Gather(position, follower) > op.Gather(position, even), [1])
        rows = op.Gather(rows, even) + op.Where(is_pair, op.Gather(rows, follower), 0.0)
        position = op.Gather(position, even) / 2
        more = op.ReduceMax(position, keepdims=0) > 0
    return rows


TRANSLATION: dict[Any, Any] = {torch.ops.afgrl.segment_sum.default: SegmentSum}
