"""Measurements beyond `afgrl reproduce` and `afgrl bench`, and the scripts that write documents from results."""

from pathlib import Path

RESULTS = Path(__file__).parent.parent / "results"
