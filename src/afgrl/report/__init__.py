"""Runs → one self-contained HTML file."""

from afgrl.report.page import write_report

__all__ = ["write_report"]
