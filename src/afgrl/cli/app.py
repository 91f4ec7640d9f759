"""How a command is registered, and what all commands need."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from afgrl.errors import AfgrlError, Interrupted, UserError, disk_error, missing_package

# The order in which data passes through them, then the commands that measure.
ORDER = (
    "demo", "datasets", "check", "estimate", "fit", "embed", "evaluate", "add", "remove", "search", "cluster",
    "quality", "compare", "report", "explore", "export", "bench", "reproduce", "doctor",
)  # fmt: skip


# What Ctrl-C leaves of a command that takes long. Files are renamed when they are complete, so none is incomplete.
INTERRUPTED = {
    "demo": "What was trained is in the run folder; there are no scores yet.",
    "fit": "If a checkpoint was saved before, `afgrl fit … --resume` continues from it.",
    "embed": "No vectors were written, and the run is unchanged.",
    "evaluate": "Embeddings that were scored are saved in the run; the same command continues with the others.",
    "add": "No nodes were added, and the run is unchanged.",
    "search": "The run is unchanged; an index is saved only when it is complete.",
    "cluster": "No new clusters were saved; earlier ones are still there.",
    "quality": "No new panel was saved. The same command continues, and does not repeat finished training runs.",
    "compare": "Finished runs are saved; the same command continues with the others.",
    "report": "No report was written; a 2-D projection that was complete is saved in the run and is used next time.",
    "export": "No model was exported, and the run is unchanged.",
    "bench": "Nothing was saved.",
    "reproduce": "Finished runs are saved in the cache of --out; the same command continues with the others.",
}


class _InOrder(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=ORDER.index)


app = typer.Typer(
    cls=_InOrder,
    help="Node embeddings for graphs with features and no labels.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
stdout, stderr = Console(), Console(stderr=True)
# Names of files and nodes are printed literally.
message = functools.partial(stderr.print, markup=False, emoji=False, highlight=False, style="dim")


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Register a command; its errors are one sentence, and its exit code is 2 for invalid input, 1 for an internal
    error, 130 if interrupted."""

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
            _quit(130, f"Interrupted. {INTERRUPTED.get(function.__name__, 'Nothing was changed.')}")
        except BrokenPipeError:  # the reader of our output is gone, as with `| head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(1) from None
        except OSError as error:
            sentence = disk_error(error)
            _quit(2 if isinstance(sentence, UserError) else 1, str(sentence))
        except ModuleNotFoundError as error:
            missing = missing_package(error)
            if missing is None:
                raise
            _quit(2, str(missing))
        except (MemoryError, RuntimeError) as error:
            if not _is_out_of_memory(error):
                raise
            _quit(1, "Out of memory; `afgrl estimate` shows how much is needed and which settings would fit.")

    return app.command()(guarded)


def _is_out_of_memory(error: Exception) -> bool:
    """By name, since importing PyTorch's exception class here would load PyTorch."""
    return (
        isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or "can't allocate" in str(error)
    )


def _quit(code: int, sentence: str) -> None:
    print(sentence, file=sys.stderr)
    raise SystemExit(code) from None


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=1))


def device_of(name: str) -> Any:
    from afgrl.train.device import choose_device

    return choose_device(name)


def opened(path: Path) -> Any:
    from afgrl.runs.folder import Run

    return Run.open(path)


def split_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")] if text else []


def check_folder(file: Path) -> None:
    """Fail before the work, not after it."""
    if not file.parent.is_dir():
        raise UserError(f"The folder {str(file.parent)!r} for {file.name!r} does not exist.")


def check_new_file(file: Path, force: bool, option: str = "--out") -> None:
    if file.exists() and not force:
        raise UserError(f"The file {str(file)!r} exists; use --force to replace it, or another {option}.")


def progress_display(quiet: bool) -> Any:
    from afgrl.train.progress import progress_bar

    return None if quiet else progress_bar


@contextmanager
def working(sentence: str, *, quiet: bool = False) -> Iterator[None]:
    """On a terminal, shows what is done and for how long."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(
        *columns, console=stderr, transient=True, refresh_per_second=4, disable=quiet or not stderr.is_terminal
    ) as progress:
        progress.add_task(sentence, total=None)
        yield


def silent(line: str) -> None:
    """Receives messages that nobody wants to see."""


def find_source(source: str) -> str:
    """An absolute path or a dataset's name; a folder that has the name of a dataset gets a hint."""
    from afgrl.data.sources import names
    from afgrl.runs.spec import absolute_source

    if source in names() and Path(source).is_dir():
        print(f"Using the dataset {source!r}; for the folder of that name write ./{source}.", file=sys.stderr)
    return absolute_source(source)
