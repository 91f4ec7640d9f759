"""A run's trained encoder as an ONNX file: the vectors of new nodes where there is no PyTorch."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

import afgrl
from afgrl.errors import UserError
from afgrl.experiment import load_method
from afgrl.runs import Run
from afgrl.writing import replace_file

OPSET = 20


def export(run: Run, file: Path) -> dict[str, str]:
    """Write the encoder of a run, and return what the file says of itself.

    Its inputs are ``x`` [nodes, features] float32 and ``edge_index`` [2, edges] int64, both directions and no
    self-loops, as ``Graph.edge_index`` has them; where the training's edges had weights, ``edge_weight`` [edges]
    float32 is a third. Its output is ``embedding`` [nodes, width]. Any graph of the same features will do, also one of
    a single node or without an edge.
    """
    try:
        import onnx
        import onnxscript  # noqa: F401
    except ImportError:
        raise UserError("ONNX files need onnx and onnxscript: pip install 'afgrl[onnx]'.") from None
    from afgrl.onnx.encoder import plain_encoder

    method = load_method(run, torch.device("cpu"))
    encoder = plain_encoder(method).requires_grad_(False).eval()
    model = _translated(encoder, method.size.n_features, weighted=run.learned_from_weights)
    says = {
        "method": method.name,
        "afgrl": afgrl.__version__,
        "features": str(method.size.n_features),
        "edge_index": "both directions, without self-loops",
    }
    if run.learned_from_weights:
        says["edge_weight"] = "above 0, the same in both directions"
    model.metadata_props.update(says)

    def write(path: Path) -> None:
        from onnxscript import ir

        ir.save(model, path)
        onnx.checker.check_model(str(path), full_check=True)

    replace_file(file, write)
    return says


def _translated(encoder: torch.nn.Module, n_features: int, *, weighted: bool) -> Any:
    """The graph by PyTorch's exporter, for any number of nodes and edges."""
    from afgrl.onnx.sums import TRANSLATION

    ring = torch.stack([torch.arange(11), torch.arange(11).roll(1)])
    example = torch.ones(11, n_features), torch.cat([ring, ring.flip(0)], dim=1), torch.ones(22)
    n_inputs = 3 if weighted else 2
    with _quiet(), torch.no_grad():
        program = torch.onnx.export(
            encoder,
            example[:n_inputs],
            dynamo=True,
            input_names=["x", "edge_index", "edge_weight"][:n_inputs],
            output_names=["embedding"],
            dynamic_shapes=({0: "nodes"}, {1: "edges"}, {0: "edges"})[:n_inputs],
            opset_version=OPSET,
            custom_translation_table=TRANSLATION,
            verbose=False,
        )
    assert program is not None
    for node in program.model.graph.all_nodes():  # each has the lines of source it came from
        node.metadata_props.clear()
    return program.model


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's notices about packages it could also have served."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
