"""One optimizer step: our Adam kernel and PyTorch's fused AdamW, both captured in a CUDA graph.

python -m benchmarks.adam        # prints the table of docs/own-code.md; needs a GPU
"""

from __future__ import annotations

import torch

from afgrl.ops.optim import Adam
from afgrl.reproduce.layout import Column, Table, markdown

# Features, width and predictor width of AFGRL with the paper's settings.
WIDTHS = {"photo": (745, 512, 1024), "cs": (6805, 1024, 2048), "physics": (8415, 256, 512)}
REPLAYS = 300


def parameters(n_features: int, d: int, hidden: int) -> list[torch.nn.Parameter]:
    """Parameters of an encoder and a predictor, with gradients."""
    torch.manual_seed(0)
    shapes = [
        (n_features, d),
        (d,),
        (d,),
        (d,),
        (1,),
        (d, hidden),
        (hidden, d),
        (hidden,),
        (d,),
        (hidden,),
        (hidden,),
        (1,),
    ]
    drawn = [torch.nn.Parameter(torch.randn(shape, device="cuda")) for shape in shapes]
    for parameter in drawn:
        parameter.grad = torch.randn_like(parameter)
    return drawn


def milliseconds(optimizer: torch.optim.Optimizer) -> float:
    """The duration of one step, averaged over many replays of a CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            optimizer.step()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            optimizer.step()
        for _ in range(50):
            graph.replay()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(REPLAYS):
            graph.replay()
        end.record()
        torch.cuda.synchronize()
    return begin.elapsed_time(end) / REPLAYS


def main() -> None:
    rows = []
    for name, widths in WIDTHS.items():
        own, fused = parameters(*widths), parameters(*widths)
        ours = Adam(own, 1e-3, weight_decay=1e-5, decoupled=True)
        rate = torch.tensor(1e-3, device="cuda")
        theirs = torch.optim.AdamW(fused, lr=rate, weight_decay=1e-5, fused=True, capturable=True)
        times = [(milliseconds(ours), milliseconds(theirs)) for _ in range(2)]
        difference = max(float((a - b).abs().max()) for a, b in zip(own, fused, strict=True))
        rows.append([name, min(time for time, _ in times), min(time for _, time in times), f"{difference:.0e}"])
    columns = [Column("parameters of"), Column("ours, ms", 3), Column("PyTorch fused, ms", 3), Column("difference")]
    print(markdown(Table("One step of Adam", columns, rows)))


if __name__ == "__main__":
    main()
