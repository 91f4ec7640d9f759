"""The batch script of docs/scale.md on a Slurm cluster of two machines, which are network namespaces of this one.

sudo python -m benchmarks.slurm [--keep FOLDER]   # needs iproute2, slurmctld, slurmd, sbatch and munged

Only numbers, names and paths of the script are replaced, and GPUs by CPUs. Slurm's files are in a temporary folder; its
daemons end with the trial.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.machines import (
    ADDRESSES,
    KILLED_AT,
    NAMES,
    NAMESPACES,
    Trial,
    kill,
    network,
    process_with,
    replaced,
    vectors,
)

DOCUMENT = Path(__file__).parent.parent / "docs" / "scale.md"
CONFIGURATION = """
ClusterName=trial
SlurmctldHost={names[0]}({addresses[0]})
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
ReturnToService=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
NodeName={names[0]} NodeAddr={addresses[0]} CPUs=2 State=UNKNOWN
NodeName={names[1]} NodeAddr={addresses[1]} CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def on(machine: int, *words: str) -> list[str]:
    script = f'hostname {NAMES["names"][machine]}; exec "$@"'
    return ["ip", "netns", "exec", NAMESPACES[machine], "unshare", "--uts", "sh", "-c", script, "sh", *words]


class Cluster:
    """Slurm's commands, on the first machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environment = {**os.environ, "SLURM_CONF": f"{folder}/slurm.conf", "PATH": path}

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        names, configuration = NAMES["names"], self.folder / "slurm.conf"
        for name in ("state", *(f"spool-{one}" for one in names)):
            (self.folder / name).mkdir(parents=True)
        # slurmd 22.05 needs the plugin even if it does not use it; version 1 starts without a file system of cgroups.
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        configuration.write_text(CONFIGURATION.format(names=names, addresses=ADDRESSES, folder=self.folder))
        (self.folder / "munge.key").write_bytes(os.urandom(128))
        (self.folder / "munge.key").chmod(0o600)
        files = [f"--{kind}-file={self.folder}/munge.{kind}" for kind in ("key", "pid", "log", "seed")]
        munged = on(0, "munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket", *files)
        daemons = [self._start(munged)]
        time.sleep(1)
        daemons.append(self._start(on(0, "slurmctld", "-D", "-f", str(configuration))))
        daemons += [self._start(on(machine, "slurmd", "-D", "-f", str(configuration))) for machine in range(2)]
        try:
            self._wait_for_nodes()
            yield
        finally:
            for machine in range(2):
                kill(machine)
            for daemon in daemons:
                daemon.wait()

    def _start(self, words: list[str]) -> subprocess.Popen[bytes]:
        with open(self.folder / "daemons.log", "ab") as log:
            return subprocess.Popen(words, env=self.environment, stdout=log, stderr=log)

    def _wait_for_nodes(self) -> None:
        for _ in range(60):
            if self.ask("sinfo", "--noheader", "--format=%T %D").split() == ["idle", "2"]:
                return
            time.sleep(0.5)
        raise TimeoutError(self.ask("sinfo", "--long", "--Node"))

    def ask(self, *words: str) -> str:
        done = subprocess.run(on(0, *words), env=self.environment, capture_output=True, text=True, check=False)
        return done.stdout.strip() or done.stderr.strip()

    def submit(self, script: Path) -> str:
        job = self.ask("sbatch", "--parsable", f"--output={script.parent}/job-%j.txt", str(script))
        if not job.isdigit():
            raise RuntimeError(job)
        return job

    def state(self, job: str) -> str:
        found = re.search(r"JobState=(\w+)", self.ask("scontrol", "show", "job", job))
        return found[1] if found else "UNKNOWN"

    def end_of(self, job: str) -> str:
        for _ in range(400):
            if (state := self.state(job)) not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"):
                return state
            time.sleep(0.5)
        return self.state(job)


def batch_script(trial: Trial) -> Path:
    """The script of the document, for two machines without GPUs and the settings of the trial."""
    section = DOCUMENT.read_text(encoding="utf-8").split("### Slurm")[1]
    text = section.split("```sh\n")[1].split("```")[0]
    numbers = {"--nodes=8": "--nodes=2", "--cpus-per-task=64": "--cpus-per-task=2", "#SBATCH --gpus-per-node=8\n": ""}
    script = trial.folder / "job.sh"
    script.write_text(replaced(trial.adapted(text), numbers))
    return script


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="a new folder for runs and logs, which stays")
    given = parser.parse_args()
    with network(), tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        trial, cluster = Trial(folder), Cluster(folder / "slurm")
        expected, script = vectors(trial.alone()), batch_script(trial)
        with cluster.running():
            report("completed", cluster.end_of(cluster.submit(script)), trial, expected)

            shutil.rmtree(trial.run)
            job = cluster.submit(script)
            trial.wait_for(KILLED_AT)
            os.kill(process_with(1, "RANK=3"), 9)
            report("a process of the second machine killed", cluster.end_of(job), trial, expected)

            shutil.rmtree(trial.run)
            job = cluster.submit(script)
            trial.wait_for(KILLED_AT)
            cluster.ask("scancel", job)
            print("scancel:", cluster.end_of(job), "complete:", (trial.run / "model.json").exists(), flush=True)
            report("the same script again", cluster.end_of(cluster.submit(script)), trial, expected)

            shutil.rmtree(trial.run)
            job = cluster.submit(script)
            trial.wait_for(KILLED_AT)
            cluster.ask("scontrol", "requeue", job)
            report("requeued", cluster.end_of(job), trial, expected)


def report(what: str, state: str, trial: Trial, expected: str) -> None:
    same = (trial.run / "embeddings.parquet").exists() and vectors(trial.run) == expected
    print(f"{what}: {state}, {'same bits as one machine' if same else 'OTHER BITS OR NONE'}", flush=True)


if __name__ == "__main__":
    main()
