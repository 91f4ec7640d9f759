"""One process of the fuzzer: reads inputs that its parent names, and reports what happened, as JSON lines.

A line is a seed, the folder of a saved input, or HANDMADE and the name of a hand-made one. The parent notices a crash
of the interpreter or a hang.
"""

import contextlib
import io
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from afgrl.cli.entry_point import app
from afgrl.config import resolve, settings_from_file
from afgrl.data.demo import load_demo
from afgrl.errors import UserError
from afgrl.methods.parts.embedder_settings import NodeEmbedderSettings
from tests.fuzz.corpus import Case, load_case
from tests.fuzz.handmade import catalog
from tests.fuzz.handmade.outcome import answer
from tests.fuzz.mutations import mutated
from tests.fuzz.sound import described, unsound
from tests.fuzz.written import written

HANDMADE, WRITTEN = "handmade ", "written "
Read = Callable[[Path], tuple[str, str]]  # reads in a new folder; the failure, or the sentence

MEMORY = 1 << 30  # bytes that reading a small input may take
DEMO = None


def main() -> None:
    for line in sys.stdin:
        request = line.rstrip("\n")
        if request.startswith(HANDMADE):
            name, read = "handmade", partial(answer, catalog()[request.removeprefix(HANDMADE)])
        elif request.startswith(WRITTEN):
            case, options, n_edges = written(int(request.removeprefix(WRITTEN)))
            name, read = "written", partial(_read, case, options=options, n_edges=n_edges)
        else:
            name, read = _changed(request)
        print(json.dumps({"input": request, "format": name} | measured(read)), flush=True)


def _changed(request: str) -> tuple[str, Read]:
    name, case = mutated(int(request)) if request.isdigit() else ("saved", load_case(Path(request)))
    return name, partial(_read, case)


def measured(read: Read) -> dict[str, Any]:
    """``failure`` is empty if the input gave a result or one sentence, quickly, and left nothing behind."""
    with tempfile.TemporaryDirectory() as name:
        memory, start = _resident(), time.perf_counter()
        failure, sentence = read(Path(name))
        seconds = time.perf_counter() - start
        grown = _peak() - memory
        if not failure and grown > MEMORY:
            failure = f"took {grown >> 20} MiB"
    return {"failure": failure, "sentence": sentence, "seconds": round(seconds, 2)}


def _read(case: Case, folder: Path, options: Sequence[str] = (), n_edges: int | None = None) -> tuple[str, str]:
    for file, content in case.files.items():
        (folder / file).write_bytes(content)
    before = sorted(folder.rglob("*"))
    if case.source == "":
        failure, sentence = _settings(folder)
    else:
        failure, sentence = _checked(folder / case.source, options, n_edges)
    if not failure and sorted(folder.rglob("*")) != before:
        failure = "left files behind"
    return failure, sentence


def _checked(source: Path, options: Sequence[str] = (), n_edges: int | None = None) -> tuple[str, str]:
    """What can be read can also be saved as a run: features without a value other than 0 could not. ``n_edges`` is how
    many must be read, if that is known."""
    with described() as datasets:
        failure, sentence, out = _called("check", str(source), "--json", *options)
    if failure or sentence:
        return failure, sentence
    found = json.loads(out)
    if n_edges not in (None, found["edges"]):
        return f"read {found['edges']} of {n_edges} edges", str(found["messages"])
    if wrong := unsound(datasets):
        return wrong, ""
    with tempfile.TemporaryDirectory() as name:
        words = ("fit", str(source), *options, "--method", "raw", "--out", f"{name}/run", "--device", "cpu", "--quiet")
        return _called(*words)[:2]


def _called(*words: str) -> tuple[str, str, str]:
    """What is wrong, the sentence, and what was printed as the result."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            app(list(words), standalone_mode=False)
    except SystemExit as stop:
        sentence = err.getvalue().strip()
        if stop.code == 2:
            return _not_one_sentence(sentence), sentence, ""
        return f"exit code {stop.code}", sentence, ""
    except BaseException:
        return "traceback", traceback.format_exc()[-1500:], ""
    return "", "", out.getvalue()


def _settings(folder: Path) -> tuple[str, str]:
    """The settings file of a run, without the training that follows."""
    global DEMO
    DEMO = DEMO or load_demo().graph
    try:
        resolve(NodeEmbedderSettings, settings_from_file(folder / "settings.toml"), graph=DEMO)
    except UserError as error:
        return _not_one_sentence(str(error)), str(error)
    except BaseException:
        return "traceback", traceback.format_exc()[-1500:]
    return "", ""


def _not_one_sentence(text: str) -> str:
    lines = text.splitlines()
    ok = len(lines) == 1 and text.endswith((".", "?")) and len(text) < 1000 and "Traceback" not in text
    return "" if ok else "not one sentence"


def _resident() -> int:
    """Resident bytes; resets the peak."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _peak() -> int:
    return _status("VmHWM")


def _status(name: str) -> int:
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[name].split()[0]) * 1024


if __name__ == "__main__":
    main()
