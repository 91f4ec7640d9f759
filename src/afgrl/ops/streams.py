"""Work that runs in parallel on a second CUDA stream."""

from __future__ import annotations

from functools import cache
from types import TracebackType

import torch

from afgrl.ops.dispatch import is_fast


@cache
def _stream(device: torch.device, number: int) -> torch.cuda.Stream:
    # High priority, since other work will wait for its results.
    return torch.cuda.Stream(device, priority=-1)


class SideStream:
    """A context whose work runs in parallel with the code after it, until ``join``; on a CPU it simply runs first.

    Many small kernels leave most of a GPU idle; those of another stream use it.
    """

    def __init__(self, device: torch.device, number: int = 0) -> None:
        """Streams with different numbers are independent, also inside another side stream."""
        self.stream = _stream(device, number) if device.type == "cuda" and is_fast() else None

    def __enter__(self) -> SideStream:
        if self.stream is not None:
            self.stream.wait_stream(torch.cuda.current_stream(self.stream.device))
            self.context = torch.cuda.stream(self.stream)
            self.context.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.stream is not None:
            self.context.__exit__(kind, error, trace)

    def join(self) -> None:
        """Makes the current stream wait for the results."""
        if self.stream is not None:
            torch.cuda.current_stream(self.stream.device).wait_stream(self.stream)
