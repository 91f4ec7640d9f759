"""The trained encoder of a run as an ONNX file: embeds new nodes without PyTorch."""

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
from afgrl.estimators.saved import Model, as_runs
from afgrl.experiment.model import load_method
from afgrl.runs.files import replace_file
from afgrl.runs.folder import Run

OPSET = 20


def export_encoder(model: Model, file: str | Path) -> dict[str, str]:
    """Write the encoder of a run or a fitted estimator to an ONNX file, as `afgrl export` does, and return the metadata
    stored in it. An existing file is replaced.

    Inputs: ``x`` [nodes, features] float32 and ``edge_index`` [2, edges] int64, both directions without self-loops, as
    in ``Graph.edge_index``; if the run was trained on weighted edges, also ``edge_weight`` [edges] float32. Output:
    ``embedding`` [nodes, width]. The file accepts any graph with the same features, also one with a single node or
    without edges.
    """
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError:
        raise UserError("The ONNX export needs onnx and onnxscript: pip install 'afgrl[onnx]'.") from None
    with as_runs([model]) as (run,), run.writing_file(Path(file)):
        return _export_run(run, Path(file))


def _export_run(run: Run, file: Path) -> dict[str, str]:
    import onnx

    from afgrl.onnx.encoder import exportable_encoder

    method = load_method(run, torch.device("cpu"))
    encoder = exportable_encoder(method).requires_grad_(False).eval()
    weighted = run.model_description()["weighted"]
    exported = _convert(encoder, method.size.n_features, weighted=weighted)
    metadata = {
        "method": method.name,
        "afgrl": afgrl.__version__,
        "features": str(method.size.n_features),
        "edge_index": "both directions, no self-loops",
    }
    if weighted:
        metadata["edge_weight"] = "positive, equal in both directions"
    exported.metadata_props.update(metadata)

    def write(path: Path) -> None:
        from onnxscript import ir

        path.write_bytes(ir.to_proto(exported).SerializeToString())
        onnx.checker.check_model(str(path), full_check=True)

    replace_file(file, write)
    return metadata


def _convert(encoder: torch.nn.Module, n_features: int, *, weighted: bool) -> Any:
    """The ONNX graph, by PyTorch's exporter, for any number of nodes and edges."""
    from afgrl.onnx.segments import TRANSLATION

    ring = torch.stack([torch.arange(11), torch.arange(11).roll(1)])
    example = torch.ones(11, n_features), torch.cat([ring, ring.flip(0)], dim=1), torch.ones(22)
    n_inputs = 3 if weighted else 2
    with _silent(), torch.no_grad():
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
    for node in program.model.graph.all_nodes():  # each node stores the source lines it came from
        node.metadata_props.clear()
    return program.model


@contextmanager
def _silent() -> Iterator[None]:
    """Suppresses the exporter's messages about optional packages that are not installed."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
