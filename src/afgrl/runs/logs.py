"""The two logs of a run, which grow line by line: the loss history and the periodic evaluations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from afgrl.runs.files import replace_file
from afgrl.runs.readers import check_record, reading


def append_line(file: Path, record: dict[str, Any]) -> None:
    with open(file, "a", encoding="utf-8") as log:
        log.write(json.dumps(record) + "\n")


def read_lines(file: Path) -> list[dict[str, Any]]:
    """The records of a log, without a last line that is incomplete because the process was killed."""
    if not file.exists():
        return []
    with reading(file):
        *lines, incomplete = file.read_bytes().split(b"\n")
        records = []
        for number, line in enumerate([*lines, incomplete] if incomplete else lines, 1):
            try:
                record = json.loads(line)
                check_record(record, {"epoch": int})
            except (ValueError, KeyError, RecursionError):
                if number > len(lines):
                    break
                raise ValueError(f"its line {number} cannot be read") from None
            records.append(record)
        return records


def drop_lines_after(file: Path, epoch: int) -> None:
    """Drop the lines of epochs that a resumed training run will repeat."""
    if file.exists():
        text = "".join(json.dumps(record) + "\n" for record in read_lines(file) if record["epoch"] <= epoch)
        replace_file(file, lambda path: path.write_text(text, encoding="utf-8"))
