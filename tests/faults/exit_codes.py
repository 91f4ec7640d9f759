"""The exit codes of commands on a busy machine. Prints one line of JSON per command.

python -m tests.faults.exit_codes [--repeats N] [--load N]     # by default 200 times each, 8 at once

Half of them run as they are; in the other half, the main thread gives the lock of the interpreter away only when it
waits. Threads that ask for it when the process ends are then late as often as on a machine that is very busy.
"""

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from afgrl.cli.entry_point import app
from tests.faults.commands import write_source

LATE = "import sys; from afgrl.cli.entry_point import main; sys.setswitchinterval(5); main()"
PROGRAMS = (("-m", "afgrl"), ("-c", LATE))
# Each reads files and ends at once; a code other than the expected one is a fault.
COMMANDS = {
    "cluster RUN -k 5000": (2, ("cluster", "{run}", "-k", "5000")),
    "add RUN KNOWN": (2, ("add", "{run}", "demo", "--quiet", "--device", "cpu")),
    "check SOURCE": (0, ("check", "{source}", "--json")),
}


def exit_codes(words, repeats, load):
    """How often each exit code occurred, and the errors that were printed."""

    def once(number):
        done = subprocess.run([sys.executable, *PROGRAMS[number % 2], *words], capture_output=True, text=True)
        return done.returncode, done.stderr.strip()[-1000:]

    with ThreadPoolExecutor(load) as pool:
        found = list(pool.map(once, range(repeats)))
    return Counter(code for code, _ in found), sorted({text for _, text in found})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--load", type=int, default=8, help="how many run at once")
    parser.add_argument("--only", choices=COMMANDS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        source, run = write_source(Path(name) / "source", 2000), f"{name}/run"
        with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
            app(["fit", "demo", "--out", run, "--quiet", "--device", "cpu", "--set", "steps=1"])
        for command, (expected, words) in COMMANDS.items():
            if given.only in (None, command):
                filled = [word.format(run=run, source=source) for word in words]
                codes, errors = exit_codes(filled, given.repeats, given.load)
                answer = {"command": command, "expected": expected, "codes": codes, "errors": errors}
                print(json.dumps(answer | {"load": round(os.getloadavg()[0], 1)}), flush=True)


if __name__ == "__main__":
    main()
