"""Runs → one self-contained HTML file, or a table of their scores."""

from afgrl.report.comparison import compare, compare_methods, write_report

__all__ = ["compare", "compare_methods", "write_report"]
