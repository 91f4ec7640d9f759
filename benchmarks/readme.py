"""Puts results/headline.md into the README, between its markers.

python -m benchmarks.readme
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.headline import RESULTS

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"


def main() -> None:
    readme = Path(__file__).parent.parent / "README.md"
    before, rest = readme.read_text().split(BEGIN)
    _, after = rest.split(END)
    table = (RESULTS / "headline.md").read_text().split("\n", 1)[1]  # without its own "generated" line
    readme.write_text(f"{before}{BEGIN}\n{table}{END}{after}")


if __name__ == "__main__":
    main()
