"""Commands that are killed or meet a failing disk leave the old state or the new one, and can be repeated.

Here a sample of the file operations is disturbed; AFGRL_FAULTS=all disturbs every one of them and takes minutes.
"""

import json
import os
import subprocess
import sys

import pytest

EVERYTHING = os.environ.get("AFGRL_FAULTS") == "all"


def answers(module, *options):
    """The JSON lines of a program of this folder, one thread each, so that its forks are safe."""
    command = [sys.executable, "-m", f"tests.faults.{module}", *options]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_no_fault_leaves_a_mixture_and_the_same_command_succeeds(record_property):
    found = answers("worker", "--every", "1" if EVERYTHING else "120")
    for answer in found:
        record_property(answer["command"], json.dumps(answer))
        print(answer)
        assert answer["problems"] == []
        assert min(answer[fault] for fault in ("kill", "EIO", "ENOSPC")) > 0
    assert len(found) == 11


def test_a_damaged_file_of_a_run_is_named_in_one_sentence(record_property):
    found = answers("damage", "--seeds", "12" if EVERYTHING else "1")
    for answer in found:
        record_property(answer["file"], json.dumps(answer))
        print(answer)
        assert answer["problems"] == []
    assert len(found) == 20


def test_two_commands_on_one_run_leave_what_one_after_the_other_would(record_property):
    from tests.faults.pairs import SAMPLE, WRITERS

    sample = [word for name in SAMPLE for word in ("--only", name)]
    found = answers("pairs", "--points", "4" if EVERYTHING else "2", *([] if EVERYTHING else sample))
    for answer in found:
        record_property(answer["pair"], json.dumps(answer))
        print(answer)
        assert answer["problems"] == []
    refused = [answer["pair"] for answer in found if "second refused" in answer]
    assert {name for name in SAMPLE if "search" not in name} <= set(refused)
    assert len(found) == (len(WRITERS) * (len(WRITERS) + 1) + 4 if EVERYTHING else len(SAMPLE))


def test_two_commands_without_a_lock_are_not_overlooked():
    pair = "fit --force/fit other --force"
    (answer,) = answers("pairs", "--unlocked", "--points", "2", "--only", pair)
    assert answer["problems"]


def test_threads_of_libraries_do_not_change_the_exit_code(record_property):
    """A process that a library ends has the code 134."""
    found = answers("exit_codes", *(("--repeats", "200") if EVERYTHING else ("--repeats", "4", "--load", "2")))
    for answer in found:
        record_property(answer["command"], json.dumps(answer))
        print(answer)
        assert answer["codes"].keys() == {str(answer["expected"])}
        assert len(answer["errors"]) == 1  # the same sentence each time
    assert len(found) == 3


def test_a_fault_is_not_overlooked(tmp_path):
    """The layer itself: what it kills, fails, and counts."""
    code = (
        "import os, sys; from pathlib import Path; from tests.faults.layer import Layer\n"
        "layer = Layer(sys.argv[1], int(sys.argv[2]), sys.argv[3]); layer.install()\n"
        "try:\n"
        "    (Path(sys.argv[1]) / 'a').write_text('0123456789')\n"
        "    os.replace(Path(sys.argv[1]) / 'a', Path(sys.argv[1]) / 'b')\n"
        "except OSError as error:\n"
        "    print(error.strerror)\n"
        "print([kind for kind, _ in layer.points])\n"
    )

    def disturbed(number, fault):
        for file in tmp_path.iterdir():
            file.unlink()
        done = subprocess.run(
            [sys.executable, "-c", code, tmp_path, str(number), fault], capture_output=True, text=True
        )
        return done.returncode, done.stdout, {file.name: file.read_text() for file in tmp_path.iterdir()}

    assert disturbed(9, "kill") == (0, "['open', 'write', 'rename']\n", {"b": "0123456789"})
    assert disturbed(1, "kill") == (-9, "", {})
    assert disturbed(2, "kill") == (-9, "", {"a": "01234"})
    assert disturbed(3, "kill") == (-9, "", {"a": "0123456789"})
    status, printed, files = disturbed(2, "ENOSPC")
    assert (status, printed.splitlines()[0], files) == (0, "No space left on device", {"a": "01234"})
    assert disturbed(3, "EIO")[1].splitlines()[0] == "Input/output error"


def test_files_reach_the_disk_before_they_get_their_names(tmp_path):
    """Otherwise a power loss could leave an empty file under the final name."""
    code = (
        "import os, sys; from pathlib import Path; from tests.faults.layer import Layer\n"
        "from afgrl.runs.files import replace_files\n"
        "folder = Path(sys.argv[1]); layer = Layer(folder); layer.install()\n"
        "replace_files({folder / name: lambda path: path.write_text('text') for name in 'ab'})\n"
        "print([kind + ' ' + os.path.relpath(path, folder).replace(str(os.getpid()), 'PID')\n"
        "       for kind, path in layer.points if kind in ('write', 'flush', 'rename')])\n"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    written = ["write .a.PID", "flush .a.PID", "write .b.PID", "flush .b.PID"]
    assert done.stdout == f"{[*written, 'rename a', 'rename b', 'flush .']}\n"


@pytest.mark.parametrize(
    ("found", "state"),
    [
        ({"run/a": "1", "run/b": "1"}, "old"),
        ({"run/a": "2", "run/b": "2"}, "new"),
        ({"run/a": "2", "run/b": "1"}, "mixture"),
        ({"run/a": "2"}, "mixture"),
        ({"run/a": "3", "run/b": "3"}, "mixture"),
        ({"run/a": "1", "run/b": "1", "run/.a.77": "1"}, "mixture"),
    ],
)
def test_a_mixture_is_not_overlooked(found, state):
    from tests.faults.states import state_of

    old, new = {"run/a": "1", "run/b": "1"}, {"run/a": "2", "run/b": "2"}
    assert state_of(found, old, new).startswith(state)
