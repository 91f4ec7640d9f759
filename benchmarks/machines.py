"""Two machines that are network namespaces of this one, each with torchrun and two processes: that the commands of
docs/scale.md train, that the vectors have the same bits as those of one machine, and what happens after failures.

sudo python -m benchmarks.machines [--only NAME …]   # → results/machines.json, .md

It needs root and iproute2, uses 10.77.0.0/24 between its two namespaces, and removes them when it ends. The machines
have names of their own and share the file system, as the run folder must.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml  # a dependency of sentence-transformers, which the tests need

from afgrl.reproduce.layout import Column, Table, markdown
from afgrl.runs.environment import current_environment
from afgrl.runs.folder import Run
from benchmarks import RESULTS

JSON = RESULTS / "machines.json"
NAMESPACES = ("afgrl-machine-1", "afgrl-machine-2")
ADDRESSES = ("10.77.0.1", "10.77.0.2")
# `names` is a network with DNS; with `Debian` a machine's own name leads to 127.0.1.1, as its installer writes; `pods`
# are named as those of the document's Job, whose names others can find only some seconds after they started.
NAMES = {"names": ("one", "two"), "Debian": ("one", "two"), "pods": ("afgrl-0", "afgrl-1")}
SETTINGS = {
    "steps": 600, "batch_size": 20, "n_components": 8, "encoder_width": 8, "predictor_width": 8, "skip": "svd",
    "n_clusters": 4, "n_restarts": 2, "refresh_every": 7, "checkpoint_every": 50,
}  # fmt: skip
KILLED_AT = 120  # steps; the last checkpoint is that of step 100
SECONDS = 150  # at most, for one command
LATE = 10  # seconds until the names of pods are in the DNS
DOCUMENT = Path(__file__).parent.parent / "docs" / "scale.md"


@contextlib.contextmanager
def network() -> Iterator[None]:
    """Two namespaces with a cable between them."""
    _remove()
    for name in NAMESPACES:
        _run("ip", "netns", "add", name)
    _run("ip", "link", "add", "afgrl1", "type", "veth", "peer", "name", "afgrl2")
    try:
        for number, (name, address) in enumerate(zip(NAMESPACES, ADDRESSES, strict=True), 1):
            _run("ip", "link", "set", f"afgrl{number}", "netns", name)
            _run("ip", "-n", name, "address", "add", f"{address}/24", "dev", f"afgrl{number}")
            for interface in ("lo", f"afgrl{number}"):
                _run("ip", "-n", name, "link", "set", interface, "up")
        yield
    finally:
        _remove()


def _run(*words: str) -> None:
    subprocess.run(words, check=True)


def _remove() -> None:
    for name in NAMESPACES:
        if (Path("/var/run/netns") / name).exists():
            kill(NAMESPACES.index(name))
            _run("ip", "netns", "delete", name)
        shutil.rmtree(Path("/etc/netns") / name, ignore_errors=True)


def kill(machine: int, number: int = signal.SIGKILL) -> None:
    """All processes of a machine at once, as when it loses power."""
    for process in _processes(machine):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


def _processes(machine: int) -> list[int]:
    found = subprocess.run(["ip", "netns", "pids", NAMESPACES[machine]], capture_output=True, text=True, check=True)
    return [int(word) for word in found.stdout.split()]


def process_with(machine: int, word: str) -> int:
    """The process of a machine whose environment has a variable."""
    for process in _processes(machine):
        with contextlib.suppress(OSError):
            if word.encode() in Path(f"/proc/{process}/environ").read_bytes().split(b"\0"):
                return process
    raise LookupError(word)


def name_machines(kind: str, *, dns: bool = True) -> None:
    """Write the /etc/hosts of both machines; `ip netns exec` puts it in the place of the system's."""
    for machine, name in enumerate(NAMESPACES):
        lines = ["127.0.0.1 localhost"]
        for other, (called, address) in enumerate(zip(NAMES[kind], ADDRESSES, strict=True)):
            if other == machine and kind == "Debian":
                lines.append(f"127.0.1.1 {called}")
            elif other == machine and kind == "pods":
                lines.append(f"{address} {called}.afgrl.default.svc.cluster.local {called}")
            elif kind != "pods":
                lines.append(f"{address} {called}")
            if kind == "pods" and dns:
                lines.append(f"{address} {called}.afgrl.default.svc.cluster.local {called}.afgrl")
        folder = Path("/etc/netns") / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "hosts").write_text("\n".join(lines) + "\n")  # in place, so that running processes see it


def command_of_pods() -> tuple[str, dict[str, str]]:
    """The script and the environment in the manifest of the document."""
    section = DOCUMENT.read_text(encoding="utf-8").split("### Kubernetes")[1]
    _, job = yaml.safe_load_all(section.split("```yaml\n")[1].split("```")[0])
    (container,) = job["spec"]["template"]["spec"]["containers"]
    *shell, script = container["command"]
    assert shell == ["sh", "-c"]
    return script, {one["name"]: one["value"] for one in container["env"]}


def replaced(text: str, replacements: dict[str, str]) -> str:
    for given, here in replacements.items():
        assert given in text, given
        text = text.replace(given, here)
    return text


class Trial:
    """A graph, and the commands on both machines."""

    def __init__(self, folder: Path, kind: str = "names", endpoint: str | None = None) -> None:
        self.folder, self.kind, self.names = folder, kind, NAMES[kind]
        self.endpoint = endpoint or self.names[0]
        self.source, self.run = folder / "source" / "graph.pt", folder / "run"
        name_machines(kind)
        self.source.parent.mkdir(parents=True, exist_ok=True)
        draw = np.random.default_rng(0)
        group = np.repeat(np.arange(3), 20)
        linked = draw.random((60, 60)) < np.where(group[:, None] == group, 0.3, 0.01)
        features = torch.tensor(draw.normal(size=(60, 12)) + np.eye(3, 12)[group] * 3, dtype=torch.float32)
        torch.save({"x": features, "edge_index": torch.tensor(np.stack(linked.nonzero()))}, self.source)

    def fit(self, out: Path, *more: str) -> list[str]:
        set_all = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
        words = ["-m", "afgrl", "fit", str(self.source), "--out", str(out), "--device", "cpu", "--quiet"]
        return [*words, *(("--resume",) if "--resume" in more else (*more, *set_all))]

    def adapted(self, text: str) -> str:
        """A script of the document with the numbers, paths and settings of this trial."""
        fit = self.fit(self.run)
        return replaced(text, {
            "--nproc-per-node 8": "--nproc-per-node 2", "/shared/runs/big": str(self.run), "SOURCE": str(self.source),
            "--device cuda": "--device cpu", "--seed 0": " ".join(fit[fit.index("--set") :]),
        })  # fmt: skip

    def start(self, machine: int, *more: str, before: str = "true") -> subprocess.Popen[bytes]:
        """The command of the document on one machine; ``before`` is done there first."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "PATH": path}
        if self.kind == "pods":
            script, given = command_of_pods()
            words = ["sh", "-c", replaced(self.adapted(script), {"--nnodes 8": "--nnodes 2"})]
            environment |= given | {"JOB_COMPLETION_INDEX": str(machine)}
        else:
            words = [
                "torchrun", "--nnodes", "2", "--nproc-per-node", "2", "--max-restarts", "3", "--rdzv-backend", "c10d",
                "--rdzv-endpoint", f"{self.endpoint}:29500", "--rdzv-id", "trial", *self.fit(self.run, *more),
            ]  # fmt: skip
            environment["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
        script = f'hostname {self.names[machine]}; {before}; exec "$@"'
        words = ["ip", "netns", "exec", NAMESPACES[machine], "unshare", "--uts", "sh", "-c", script, "sh", *words]
        with open(self.folder / f"log-{machine}.txt", "ab") as log:
            return subprocess.Popen(words, stdout=log, stderr=log, env=environment)

    def alone(self) -> Path:
        """The run of one machine with four processes."""
        out = self.folder / "alone"
        _run(sys.executable, "-W", "ignore", "-m", "afgrl", *self.fit(out, "--nproc", "4")[2:])
        return out

    def wait_for(self, step: int) -> None:
        deadline = time.monotonic() + SECONDS
        while not any(line["epoch"] >= step for line in Run(self.run).lines("history.jsonl")):
            if time.monotonic() > deadline:
                raise TimeoutError(f"no step {step}; see the logs in {self.folder}")
            time.sleep(0.1)


def end(*commands: subprocess.Popen[bytes]) -> list[int]:
    deadline = time.monotonic() + SECONDS
    return [command.wait(max(1, deadline - time.monotonic())) for command in commands]


def undisturbed(trial: Trial) -> str:
    codes = end(trial.start(0), trial.start(1))
    return f"exit codes {codes[0]} and {codes[1]}"


def hidden_source(trial: Trial) -> str:
    codes = end(trial.start(0), trial.start(1, before=f"mount -t tmpfs none {trial.source.parent}"))
    return f"exit codes {codes[0]} and {codes[1]}"


def pods(trial: Trial) -> str:
    name_machines("pods", dns=False)
    commands = trial.start(0), trial.start(1)
    time.sleep(LATE)
    name_machines("pods")
    codes = end(*commands)
    return f"exit codes {codes[0]} and {codes[1]}"


def lost_pod(trial: Trial) -> str:
    first, second = trial.start(0), trial.start(1)
    trial.wait_for(KILLED_AT)
    kill(0)
    first.wait()
    (lost,) = end(second)
    codes = end(trial.start(0), trial.start(1))
    return f"pod 1 ends with {lost}; exit codes {codes[0]} and {codes[1]} of the new ones"


def killed_process(trial: Trial) -> str:
    commands = trial.start(0), trial.start(1)
    trial.wait_for(KILLED_AT)
    os.kill(process_with(1, "RANK=3"), signal.SIGKILL)
    codes = end(*commands)
    return f"exit codes {codes[0]} and {codes[1]}"


def lost_machine(trial: Trial) -> str:
    first, second = trial.start(0), trial.start(1)
    trial.wait_for(KILLED_AT)
    kill(1)
    second.wait()
    codes = end(first, trial.start(1))
    return f"exit codes {codes[0]} and {codes[1]} of the new one"


def lost_first_machine(trial: Trial) -> str:
    first, second = trial.start(0), trial.start(1)
    trial.wait_for(KILLED_AT)
    kill(0)
    first.wait()
    (lost,) = end(second)
    codes = end(trial.start(0, "--resume"), trial.start(1, "--resume"))
    return f"the second ends with {lost}; exit codes {codes[0]} and {codes[1]} with --resume"


def stopped_machine(trial: Trial) -> str:
    first, second = trial.start(0), trial.start(1)
    trial.wait_for(KILLED_AT)
    second.terminate()
    (stopped,) = end(second)
    codes = end(first, trial.start(1))
    return f"it ends with {stopped}; exit codes {codes[0]} and {codes[1]} of the new one"


def stopped_machines(trial: Trial) -> str:
    commands = trial.start(0), trial.start(1)
    trial.wait_for(KILLED_AT)
    for command in commands:
        command.terminate()
    stopped = end(*commands)
    codes = end(trial.start(0, "--resume"), trial.start(1, "--resume"))
    return f"they end with {stopped[0]} and {stopped[1]}; exit codes {codes[0]} and {codes[1]} with --resume"


CASES: dict[str, tuple[Callable[[Trial], str], dict[str, str]]] = {
    "trained": (undisturbed, {}),
    "own names are 127.0.1.1": (undisturbed, {"kind": "Debian"}),
    "rendezvous on the second": (undisturbed, {"endpoint": "two"}),
    "source only on the first": (hidden_source, {}),
    "process of the second killed": (killed_process, {}),
    "second killed, started again": (lost_machine, {}),
    "first killed, both started again": (lost_first_machine, {}),
    "SIGTERM to the second, started again": (stopped_machine, {}),
    "SIGTERM to both, started again": (stopped_machines, {}),
    "the Job's command, names found late": (pods, {"kind": "pods"}),
    "the Job's command, pod 0 lost": (lost_pod, {"kind": "pods"}),
    "the Job's command, pod 1 lost": (lost_machine, {"kind": "pods"}),
}


def vectors(run: Path) -> str:
    return hashlib.sha256((run / "embeddings.parquet").read_bytes()).hexdigest()[:16]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=CASES)
    parser.add_argument("--keep", type=Path, help="a folder for runs and logs, which stays")
    given = parser.parse_args()
    rows: dict[str, Any] = json.loads(JSON.read_text())["cases"] if given.only and JSON.exists() else {}
    with network(), tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        expected = vectors(Trial(folder / "alone").alone())
        for name in given.only or CASES:
            case, options = CASES[name]
            started, trial = time.monotonic(), Trial(folder / re.sub(r"\W+", "-", name), **options)
            outcome = case(trial)
            rows[name] = {
                "outcome": outcome, "same bits": vectors(trial.run) == expected,
                "seconds": round(time.monotonic() - started),
            }  # fmt: skip
            print(name, rows[name], flush=True)
    environment = current_environment(torch.device("cpu"))
    JSON.write_text(json.dumps({"environment": environment, "cases": rows}, indent=1) + "\n", encoding="utf-8")
    columns = [Column("two machines"), Column("outcome"), Column("vectors of one machine"), Column("seconds", 0)]
    lines = [
        [name, row["outcome"], "same bits" if row["same bits"] else "other bits", float(row["seconds"])]
        for name, row in rows.items()
    ]
    title = "Measured with `python -m benchmarks.machines`, PyTorch " + environment["versions"]["torch"] + ".\n\n"
    text = title + markdown(Table("Two machines with two processes each, by Gloo", columns, lines)).strip() + "\n"
    (RESULTS / "machines.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
