"""The entry point of the command line."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

import afgrl
from afgrl.cli import analysis, assessment, data, studies, training  # noqa: F401  (each registers its commands)
from afgrl.cli.app import app

__all__ = ["app", "main"]


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", is_eager=True, help="Print the version.")] = False,
) -> None:
    if version:
        print(afgrl.__version__)
        raise typer.Exit


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # for files whose encoding lacks our characters
    app()
