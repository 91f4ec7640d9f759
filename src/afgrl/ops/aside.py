"""Two things at once on a GPU."""

from __future__ import annotations

from functools import cache
from types import TracebackType

import torch

from afgrl.ops.dispatch import is_fast


@cache
def _stream(device: torch.device, lane: int) -> torch.cuda.Stream:
    # It goes first: what is put aside is what the rest will wait for.
    return torch.cuda.Stream(device, priority=-1)


class Aside:
    """What runs inside runs beside what comes after it, until ``join``; elsewhere than on a GPU, simply before it.

    Many small kernels leave most of a GPU idle; those of other work fill it.
    """

    def __init__(self, device: torch.device, lane: int = 0) -> None:
        """``lane``: another one, inside what is already aside."""
        self.stream = _stream(device, lane) if device.type == "cuda" and is_fast() else None

    def __enter__(self) -> Aside:
        if self.stream is not None:
            self.stream.wait_stream(torch.cuda.current_stream(self.stream.device))
            self.inside = torch.cuda.stream(self.stream)
            self.inside.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.stream is not None:
            self.inside.__exit__(kind, error, trace)

    def join(self) -> None:
        """From here on its results can be used."""
        if self.stream is not None:
            torch.cuda.current_stream(self.stream.device).wait_stream(self.stream)
