"""A run whose files are read once, for programs that ask for the same ones several times."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from afgrl.runs.folder import Run


class RunInMemory(Run):
    """Keeps what it has read, so it must not be written to while it is in use."""

    def embedding(self) -> tuple[np.ndarray, np.ndarray]:
        return self._embedding

    def nodes(self) -> pa.Table:
        return self._nodes

    def names(self) -> tuple[str, pa.ChunkedArray] | None:
        return self._names

    def clusters(self) -> tuple[np.ndarray, dict[str, Any]] | None:
        return self._clusters

    @cached_property
    def _embedding(self) -> tuple[np.ndarray, np.ndarray]:
        return super().embedding()

    @cached_property
    def _nodes(self) -> pa.Table:
        return super().nodes()

    @cached_property
    def _names(self) -> tuple[str, pa.ChunkedArray] | None:
        return super().names()

    @cached_property
    def _clusters(self) -> tuple[np.ndarray, dict[str, Any]] | None:
        return super().clusters()
