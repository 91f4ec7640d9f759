"""Copy measured tables into the documents that show them, between markers that name the file.

python -m benchmarks.publish
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
SHOWN = re.compile(r"<!-- (results/\S+\.md) -->\n.*?<!-- end of \1 -->", re.DOTALL)


def published(document: str) -> str:
    """The text of a document with its tables updated."""
    return SHOWN.sub(lambda found: block(found[1]), document)


def block(results: str) -> str:
    """A generated file without its first line (a title or a comment), between markers."""
    table = (ROOT / results).read_text().split("\n", 1)[1].strip("\n")
    return f"<!-- {results} -->\n{table}\n<!-- end of {results} -->"


def main() -> None:
    for document in DOCUMENTS:
        document.write_text(published(document.read_text()))


if __name__ == "__main__":
    main()
