"""How a command is registered, and what all of them need."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from afgrl.errors import AfgrlError, Interrupted, UserError

# The data's walk, then what measures.
ORDER = (
    "demo", "datasets", "check", "estimate", "fit", "embed", "evaluate", "search", "cluster", "report", "explore",
    "export", "bench", "reproduce", "doctor",
)  # fmt: skip


class _InOrder(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=ORDER.index)


app = typer.Typer(
    cls=_InOrder,
    help="Node embeddings from a graph with features and no labels.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
stdout, stderr = Console(), Console(stderr=True)


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Register a command whose errors are one sentence and whose exit status says whose fault it was."""

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            function(*args, **kwargs)
        except UserError as error:
            _quit(2, str(error))
        except Interrupted as error:
            _quit(130, str(error))
        except AfgrlError as error:
            _quit(1, str(error))
        except KeyboardInterrupt:
            _quit(130, "Interrupted.")
        except BrokenPipeError:  # the reader of our output has left, as `| head` does
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(1) from None
        except OSError as error:  # a disk that is full, a folder nobody may write to
            _quit(1, f"{error.strerror or error}: {error.filename!r}." if error.filename else f"{error}.")
        except (MemoryError, RuntimeError) as error:
            if not _is_lack_of_memory(error):
                raise
            _quit(1, "There is not enough memory for this; `afgrl estimate` says what it takes, and what would fit.")

    return app.command()(guarded)


def _is_lack_of_memory(error: Exception) -> bool:
    """PyTorch has a class for that of GPUs only, and to ask for it here would import it."""
    return (
        isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or "can't allocate" in str(error)
    )


def _quit(status: int, sentence: str) -> None:
    print(sentence, file=sys.stderr)
    raise SystemExit(status) from None


def device_named(name: str) -> Any:
    from afgrl.train import pick_device

    return pick_device(name)


def names_in(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")] if text else []


def check_folder(file: Path) -> None:
    """Before the work, not after it."""
    if not file.parent.is_dir():
        raise UserError(f"There is no folder {str(file.parent)!r} to write {file.name!r} into.")


def display(quiet: bool) -> Any:
    from afgrl.progress import progress_bar

    return None if quiet else progress_bar


def found(source: str) -> str:
    """Where a source is; of a folder that has a dataset's name it is said how to get at it."""
    from afgrl.data.sources import names
    from afgrl.order import located

    if source in names() and Path(source).is_dir():
        print(f"{source!r} is the dataset of that name; ./{source} is the folder.", file=sys.stderr)
    return located(source)


def file_options(
    id_column: str | None, source: str | None, target: str | None, label: str | None, weight: str | None,
    nodes: str | None, columns: list[str] | None, knn_graph: int | None, encoding: str | None,
) -> Any:  # fmt: skip
    """What was told about a user's own files."""
    from afgrl.data.files.options import Options
    from afgrl.order import located

    nodes = nodes and located(nodes)
    return Options(id_column, source, target, label, weight, nodes, tuple(columns or ()), knn_graph, encoding)
