"""Measurements beyond `afgrl reproduce` and `afgrl bench`, and the scripts that write documents from results."""

from pathlib import Path

import afgrl  # noqa: F401  (before PyTorch, since it sets how threads wait)

RESULTS = Path(__file__).parent.parent / "results"
