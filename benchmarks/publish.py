"""Puts the measured tables into the documents that show them, between their markers.

python -m benchmarks.publish
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.headline import RESULTS

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
SHOWN = {
    ROOT / "README.md": RESULTS / "headline.md",
    ROOT / "docs" / "deviations.md": RESULTS / "deviations.md",
    ROOT / "docs" / "methods.md": RESULTS / "methods.md",
    ROOT / "docs" / "performance.md": RESULTS / "speed.md",
    ROOT / "docs" / "your-own-graph.md": RESULTS / "own-tables.md",
}


def table(results: Path) -> str:
    """A generated file without its first line, which says that it is generated."""
    return results.read_text().split("\n", 1)[1]


def main() -> None:
    for document, results in SHOWN.items():
        before, rest = document.read_text().split(BEGIN)
        _, after = rest.split(END)
        document.write_text(f"{before}{BEGIN}\n{table(results)}{END}{after}")


if __name__ == "__main__":
    main()
