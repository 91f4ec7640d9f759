"""Runs → one self-contained HTML file, or a table of their scores."""

from afgrl.report.comparison import compare, write_report

__all__ = ["compare", "write_report"]
