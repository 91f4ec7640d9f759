"""Command lines: settings, settings files, option values, paths that are no plain files, and questions to a run."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

from afgrl.methods import available_methods, method_class
from afgrl.methods.parts.embedder_settings import NodeEmbedderSettings
from tests.fuzz.corpus import NODES
from tests.fuzz.handmade.case import Content, Handmade
from tests.fuzz.handmade.tables import tables

FIT = ("fit", "{folder}", "--out", "{folder}/out", "--device", "cpu", "--quiet")
SMALL = ("--set", "n_components=4", "--set", "predictor_width=4", "--set", "n_restarts=1", "--set", "n_clusters=2")
VALUES = ("", "x", "nan", "-1", "1e999", "[]", "1e-400", "1e300", "1e-300", "9" * 5000)
ENDLESS = {("steps", "9" * 5000)}
SETTINGS_FILES = {
    "empty": "",
    "no TOML": "hello",
    "a number": "= 3",
    "an open string": 'a = "',
    "a list": "steps = [1]",
    "a table": "[steps]\na = 1",
    "settings of text": 'settings = "x"',
    "settings of a list": "settings = [1]",
    "tables of settings": "[[settings]]\nepochs = 1",
    "a date": "steps = 2021-01-02",
    "a boolean": "n_components = true",
    "text": 'n_components = "many"',
    "nan": "learning_rate = nan",
    "infinity": "learning_rate = inf",
    "an overflow": "learning_rate = 1e999",
    "5,000 digits": "steps = " + "9" * 5000,
    "negative": "steps = -1",
    "unknown": "no_such = 1",
    "repeated": "steps = 1\nepochs = 2",
    "2,000 levels": "a = " + "[" * 2000 + "]" * 2000,
    "20,000 tables": "".join(f"[t{i}]\n" for i in range(20_000)),
    "2 MiB": "# " + "x" * (2 << 20),
    "not UTF-8": b"a = '\xff'",
    "zero bytes": "a = 1\0",
    "a byte order mark": "\ufeffepochs = 1",
    "utf-16": "steps = 1".encode("utf-16"),
    "dotted keys": "epochs.a.b = 1",
    "an empty key": '"" = 1',
    "a long key": "x" * 100_000 + " = 1",
    "a run's file": 'format = 1\nsource = "x"\n[settings]\nepochs = "x"',
}
OPTIONS = {
    "--method": ("", "none", "AFGRL", "../afgrl", "x" * 5000),
    "--recipe": ("", "none", "default\n", "[]"),
    "--splits": ("", "none", "canonical"),
    "--device": ("", "gpu", "cuda:99", "cpu:x", "tpu"),
    "--seed": ("", "x", "-1", "1.5", str(2**63), "9" * 5000),
    "--evaluate-every": ("-1", "x", "9" * 5000),
    "--set": ("", "=", "steps", "=1", "no_such=1", "steps==1", "steps=1=2", "\0=1"),
    "--data-dir": ("", "none", "/dev/null", "x" * 300),
    "--id": ("", "none", "no such column", "label"),
    "--label": ("", "no such column", "id", "age"),
    "--source-column": ("", "none", "target"),
    "--target-column": ("", "none", "source", "weight"),
    "--weight": ("", "target", "no such column"),
    "--name": ("", "no such column", "label"),
    "--column": (
        "",
        "=",
        "age",
        "age=",
        "=number",
        "age=numbers",
        "no_such=number",
        "city=number",
        "id=ignore",
        "age=text",
    ),
    "--text-model": ("", "none", "/dev/zero", "{folder}"),
    "--knn-graph": ("0", "-1", "x", "11", "9" * 5000),
    "--na-values": ("", "Rome", "\0"),
    "--nodes": ("", ".", "none.csv", "{folder}/edges.csv"),
}
RUN_WORDS = {
    "search": (
        ("no such node",),
        ("",),
        ("n0", "-k", "0"),
        ("n0", "-k", "-1"),
        ("n0", "-k", "x"),
        ("n0", "-k", "9" * 30),
        ("n0", "-k", "12"),
        ("\0",),
        ("\udc80",),
        ("n0", "n0"),
        ("x" * 100_000,),
        ("n0", "--index", "-k", "100000"),
    ),
    "cluster": (
        ("-k", "0"),
        ("-k", "1"),
        ("-k", "-1"),
        ("-k", "x"),
        ("-k", "13"),
        ("-k", "9" * 5000),
        ("-k", "²"),
        ("-k", "٣"),
        ("--seed", "-1"),
        ("--seed", str(2**64)),
        ("--seed", "x"),
        ("-k", "3", "--data-dir", "/dev/null"),
    ),
    "report": (
        ("--map", "umap"),
        ("--map", ""),
        ("--out", "{folder}/none/a.html"),
        ("--out", "/dev/null"),
        ("--out", "{folder}"),
        ("--out", ""),
        ("--out", "{folder}/" + "x" * 300),
        ("{folder}/none",),
        ("--out", "{folder}/a\0.html"),
    ),
    "embed": (
        ("--format", "xml"),
        ("--format", ""),
        ("--out", "{folder}/none/a.csv"),
        ("--out", "{folder}/a.xml"),
        ("--out", "{folder}/run"),
        ("--alone",),
        ("--graph", "none"),
        ("--graph", "{folder}/run"),
        ("--graph", "/dev/zero"),
        ("--graph", ""),
        ("--graph", "demo"),
        ("--device", "x"),
        ("--out", "/dev/full"),
        ("--out", "{folder}/" + "x" * 300 + ".csv"),
    ),
    "export": (("--out", "{folder}/none/a.onnx"), ("--out", "{folder}"), ("--out", "/dev/null"), ("--out", "")),
    "evaluate": (("--device", "x"), ("--data-dir", "none")),
    "add": tuple((new, "--quiet") for new in ("none", "/dev/zero", "", "{folder}/run", "demo")),
    "remove": (("none",), ("",), ("../run",), ("\0",), ("x" * 300,)),
}


def cases() -> Iterator[Handmade]:
    graph = tables()
    for setting in NodeEmbedderSettings.model_fields:
        for value in VALUES:
            if (setting, value) not in ENDLESS:
                few = () if setting == "steps" else ("--set", "steps=1")
                words = (*FIT, *few, *SMALL, "--set", f"{setting}={value}")
                yield Handmade(f"--set {setting}={value[:9]}", words, graph)
    for method in available_methods():
        for value in ("1e300", "1e-300"):
            words = (*FIT, "--method", method, "--set", f"learning_rate={value}")
            yield Handmade(f"--method {method} --set learning_rate={value}", words, graph)
    for what, text in SETTINGS_FILES.items():
        content = text if isinstance(text, bytes) else text.encode()
        words = (*FIT, *SMALL, "--set", "steps=1", "--config", "{folder}/settings.toml")
        yield Handmade(f"toml: {what}", words, graph | {"settings.toml": content})
    for option, values in OPTIONS.items():
        for value in values:
            words = (*FIT, *SMALL, "--set", "steps=1", option, value)
            yield Handmade(f"fit {option} {value[:20]!r}", words, graph)
    for name, endings in RUN_WORDS.items():
        for words in endings:
            shown = " ".join(word[:20] for word in words)
            yield Handmade(f"{name} {shown!r}", (name, "{folder}/run", *words), graph, needs_run=True)
    for name in ("\udcff.csv", "ü.csv", "a b.csv", "-.csv"):
        words = ("add", "{folder}/run", "{folder}/" + name, "--quiet")
        yield Handmade(
            f"add a file named {name!r}", words, {name: NODES.replace("\nn", "\nm").encode()}, needs_run=True
        )
        numbered = {name: b"age,city,since\n30,Rome,2010-01-02\n"}
        yield Handmade(f"add a file without ids named {name!r}", words, numbered, needs_run=True)
    yield from _without_information()
    yield from _paths()


RING = "source,target\n" + "".join(f"n{i},n{(i + 1) % 9}\n" for i in range(9))
SAYS_NOTHING = {
    "a constant column": ("id,age\n" + "".join(f"n{i},7\n" for i in range(9)), RING),
    "an empty column": ("id,age\n" + "".join(f"n{i},\n" for i in range(9)), RING),
    "numbers that are 0 in float32": ("id,age\n" + "".join(f"n{i},{i}e-200\n" for i in range(9)), RING),
    "one node": ("id,age,city\nn0,7,Rome\n", "source,target\nn0,n0\n"),
}


def _without_information() -> Iterator[Handmade]:
    """Tables that `check` reads, but whose features are all 0: every method has to train on them and to be saved."""
    for what, (nodes, edges) in SAYS_NOTHING.items():
        for method in available_methods():
            if method_class(method).needs_labels:
                continue
            known = method_class(method).settings_class.model_fields
            few = {
                "epochs": 1,
                "steps": 0 if method_class(method).supports_batches else 1,
                "n_components": 4,
                "n_neighbors": 1,
            }
            settings = [word for name, value in few.items() if name in known for word in ("--set", f"{name}={value}")]
            words = (*FIT, "--method", method, *settings)
            yield Handmade(f"fit {method} of {what}", words, tables(nodes, edges))


SPECIAL: dict[str, Content] = {
    "a FIFO": os.mkfifo,
    "a socket": lambda path: _socket(path),
    "a link to itself": lambda path: path.symlink_to(path),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "an empty folder": lambda path: path.mkdir(),
    "a folder that contains itself": lambda path: (path.mkdir(), (path / "edges.csv").symlink_to(path)),
    "a folder of folders": lambda path: (path / "edges.csv").mkdir(parents=True),
    "a folder with a FIFO": lambda path: (path.mkdir(), os.mkfifo(path / "edges.csv")),
    "a file of zeros": bytes(1000),
    "an empty file": b"",
}
NAMES = (
    "",
    " ",
    "..",
    "/",
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/tty",
    "/proc/self/mem",
    "/proc/self/environ",
    "/proc/self/fd",
    "~nobody-here/a.csv",
    "a\0b.csv",
    "\udc80.csv",
    "x" * 300 + ".csv",
    "a/" * 3000 + "b.csv",
    "http://localhost/a.csv",
    "file:///etc/passwd",
    "C:\\graph.csv",
    "-",
    "a\nb.csv",
    "*.csv",
    "{folder}/nodes.csv/a.csv",
)
PLACES: dict[str, tuple[str, ...]] = {
    "source": ("check", "{path}", "--json"),
    "--nodes": ("check", "{{folder}}/edges.csv", "--json", "--nodes", "{path}"),
    "--config": (
        *(word.replace("{", "{{").replace("}", "}}") for word in FIT),
        *SMALL,
        "--set",
        "steps=1",
        "--config",
        "{path}",
    ),
    "--out": ("fit", "{{folder}}", "--out", "{path}", *FIT[4:], *SMALL, "--set", "steps=1"),
    "run": ("search", "{path}", "n0"),
}
HARMFUL = {("--out", name) for name in ("", " ", "..", "/", "-", "*.csv")}  # valid places for a run, outside the folder


def _paths() -> Iterator[Handmade]:
    for place, words in PLACES.items():
        for what, content in SPECIAL.items():
            path = "{{folder}}/special.csv"
            filled = tuple(word.format(path=path).replace("{{", "{").replace("}}", "}") for word in words)
            yield Handmade(f"{what} as {place}", filled, tables() | {"special.csv": content})
        for name in NAMES:
            if (place, name) not in HARMFUL:
                filled = tuple(word.replace("{path}", name).replace("{{", "{").replace("}}", "}") for word in words)
                yield Handmade(f"the name {name[:24]!r} as {place}", filled, tables())


def _socket(path: Path) -> None:
    before = os.getcwd()
    os.chdir(path.parent)  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)
    os.chdir(before)
