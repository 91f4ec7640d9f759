"""Which stage of the default gives other bits in another call or another process.

AFGRL_DATA=DIR python -m benchmarks.determinism photo cora cs          # → results/determinism.json

Two processes run every stage twice with the same seed, from the graph to the vectors. A stage that is not the same in
all four explains the stages after it. docs/method.md and docs/performance.md say what is promised.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import torch
from torch import Tensor

from afgrl.config import resolve
from afgrl.graph import Graph
from afgrl.methods.node_embedder import NodeEmbedderMethod
from afgrl.methods.parts.embedder_settings import NodeEmbedderSettings
from afgrl.ops.propagation.adjacency import gcn_norm
from afgrl.ops.propagation.columns import pagerank_average
from afgrl.ops.sparse import csr_multiplier
from afgrl.ops.sparse.rows import unit_rows
from afgrl.ops.svd import feature_basis, gram_matrix
from afgrl.runs.environment import current_environment
from afgrl.train.device import choose_device
from afgrl.train.loop import training_loop
from afgrl.train.state import initial_state
from benchmarks import RESULTS
from benchmarks.graphs import dataset


def stages(graph: Graph, device: torch.device) -> dict[str, str]:
    """The hash of what each stage returns."""
    graph = graph.to(device)
    adjacency, x = gcn_norm(graph), unit_rows(graph.x)
    x = x.to_dense() if x.is_cuda else x
    h = x @ feature_basis(x, min(256, graph.n_features))
    gram = gram_matrix([h])
    tensors = {
        "adjacency": adjacency.values(), "basis of the features": h, "PyTorch's product with S": adjacency @ h,
        "product with S": csr_multiplier(adjacency)(h), "PageRank average": pagerank_average(h, adjacency),
        "gram matrix": gram, "eigenvectors": torch.linalg.eigh(gram)[1], "QR": torch.linalg.qr(h)[0],
    }  # fmt: skip
    state, inputs = initial_state("node_embedder", resolve(NodeEmbedderSettings, graph=graph), graph, device)
    assert isinstance(state.method, NodeEmbedderMethod)
    if state.method.spectral is not None:
        tensors["spectral features"] = state.method.spectral.rotation.clone()
    tensors["first weights"] = torch.cat([weight.detach().flatten() for weight in state.method.parameters()])
    training_loop(state, inputs)
    tensors["last weights"] = torch.cat([weight.detach().flatten() for weight in state.method.parameters()])
    tensors["vectors"] = state.method.embed(inputs)
    return {name: _hash(tensor) for name, tensor in tensors.items()}


def _hash(tensor: Tensor) -> str:
    return hashlib.sha256(tensor.detach().cpu().contiguous().numpy().tobytes()).hexdigest()[:12]


def measured(names: list[str], device: str) -> dict[str, dict[str, list[str]]]:
    """Graph → stage → the hashes of two calls in each of two processes."""
    command = [sys.executable, "-m", "benchmarks.determinism", *names, "--device", device, "--child"]
    answers = [
        json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines()[-1])
        for _ in range(2)
    ]
    return {
        name: {stage: [call[name][stage] for answer in answers for call in answer] for stage in answers[0][0][name]}
        for name in names
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", default=["photo", "cora", "cs"])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=RESULTS / "determinism.json")
    parser.add_argument("--child", action="store_true", help="print the hashes of this process")
    given = parser.parse_args()
    device = choose_device(given.device)
    if given.child:
        graphs = {name: dataset(name).graph for name in given.graphs}
        print(json.dumps([{name: stages(graph, device) for name, graph in graphs.items()} for _ in range(2)]))
        return
    answer = measured(given.graphs, given.device)
    for name, found in answer.items():
        for stage, (a, b, c, d) in found.items():
            words = ["the same" if a == b and c == d else "not the same", "the same" if a == c else "not the same"]
            print(f"{name:12} {stage:26} in one process {words[0]:14} in another {words[1]}")
    command = " ".join(["python -m benchmarks.determinism", *sys.argv[1:]])
    record = {"command": command, "environment": current_environment(device), "hashes": answer}
    given.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
