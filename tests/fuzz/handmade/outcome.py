"""What the command line answers to a hand-made input."""

import contextlib
import io
import os
import shutil
import tempfile
import traceback
from pathlib import Path
from typing import Any

import typer

from afgrl.cli.entry_point import app
from afgrl.methods import available_methods
from tests.fuzz.handmade.case import Handmade
from tests.fuzz.handmade.commands import FIT, SMALL
from tests.fuzz.handmade.tables import tables
from tests.fuzz.sound import described, unsound

RUN: Path | None = None  # made at first use


def answer(case: Handmade, folder: Path) -> tuple[str, str]:
    """What is wrong, and the sentence; both empty for a result. ``folder`` is new."""
    if missing := _unavailable(case):
        return f"{LEFT_OUT} {missing}", ""
    _create(case, folder)
    words = [word.replace("{folder}", str(folder)) for word in case.words]
    before = _contents(folder)
    with _working_in(folder), described() as datasets:
        code, err = _called(words)
    left = sorted(_contents(folder).items() - before.items())
    if code == "traceback":
        return "traceback", err
    if code == 0:
        hidden = [name for name, _ in left if Path(name).name.startswith(".")]
        return (f"left {hidden}" if hidden else unsound(datasets)), ""
    if code != 2:
        return f"exit code {code}", err
    if left:
        return f"left {left}", err
    return _not_one_sentence(err), err


LEFT_OUT = "not available:"  # an option, setting or command of later versions


def _unavailable(case: Handmade) -> str:
    """What this version of afgrl does not have; names with "no" in front are meant to be unknown."""
    commands: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    if case.words[0] not in commands:
        return case.words[0]
    options = {name for parameter in commands[case.words[0]].params for name in parameter.opts}
    for word, value in zip(case.words, (*case.words[1:], ""), strict=True):
        if word.startswith("--") and word not in options:
            return word
        setting = value.partition("=")[0]
        known = {name for method in available_methods().values() for name in method.settings_class.model_fields}
        if word == "--set" and setting.isidentifier() and setting not in known | {"no_such"}:
            return setting
    return ""


def _create(case: Handmade, folder: Path) -> None:
    for name, content in case.files.items():
        if isinstance(content, bytes):
            (folder / name).write_bytes(content)
        else:
            content(folder / name)
    if case.needs_run:
        shutil.copytree(_small_run(), folder / "run")


def _small_run() -> Path:
    global RUN
    if RUN is None:
        source = Path(tempfile.mkdtemp()) / "source"
        source.mkdir()
        for name, content in tables().items():
            assert isinstance(content, bytes)
            (source / name).write_bytes(content)
        words = [word.replace("{folder}", str(source)) for word in (*FIT, *SMALL, "--set", "steps=1")]
        code, err = _called(words)
        assert code == 0, err
        RUN = source / "out"
    return RUN


def _called(words: list[str]) -> tuple[int | str, str]:
    """The exit code, or "traceback", and what was printed as an error."""
    err = io.StringIO()
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
            app(words)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
        return code, err.getvalue().strip()
    except BaseException:
        return "traceback", traceback.format_exc()[-1500:]
    return 0, err.getvalue()


def _not_one_sentence(text: str) -> str:
    """Typer explains the command before its own message about an option, which may lack the period."""
    lines, ends = text.splitlines(), (".", "?")
    if text.startswith("Usage: "):
        lines, ends = [line for line in lines if line.startswith("Error: ")], ("",)
    ok = len(lines) == 1 and lines[0].endswith(ends) and len(lines[0]) < 1000 and "Traceback" not in text
    return "" if ok else "not one sentence"


@contextlib.contextmanager
def _working_in(folder: Path) -> Any:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _contents(folder: Path) -> dict[str, int]:
    """Everything below a folder, with its size; links are not followed."""
    found = {}
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(place, name)
            found[os.path.relpath(path, folder)] = 0 if name in folders else os.lstat(path).st_size
    return found
