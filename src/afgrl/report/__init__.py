"""Runs → one HTML file that needs nothing but itself."""

from afgrl.report.page import report

__all__ = ["report"]
