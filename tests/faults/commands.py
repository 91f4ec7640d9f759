"""The commands whose file operations are disturbed, each with the folder it starts from."""

import shutil
from dataclasses import dataclass, field

import numpy as np

from tests.faults.states import USERS

FIT = [
    "--device", "cpu", "--quiet", "--label", "topic", "--evaluate-every", "2", "--set", "n_components=8",
    "--set", "predictor_width=8", "--set", "n_clusters=3", "--set", "n_restarts=2", "--set", "kmeans_iters=2",
    "--set", "checkpoint_every=2",
]  # fmt: skip
FIRST, SECOND = ["--set", "steps=4"], ["--set", "steps=5", "--set", "seed=1"]


@dataclass(frozen=True)
class Command:
    """``words`` is a command line, in which {folder} is the folder that has the run; or ``save`` of an estimator."""

    name: str
    words: list[str]
    start: str  # the name of the folder that it starts from
    again: list[list[str]] = field(default_factory=list)  # what continues an unfinished run; by default the same
    refused: tuple[str, ...] = ()  # states of a run that is not replaced without being asked to
    steps: list[dict[str, str]] = field(default_factory=list)  # states between: a file is old, new or absent


def commands():
    fit = ["fit", "{source}", "--out", "{folder}/run", *FIT, *FIRST]
    resume = ["fit", "{source}", "--out", "{folder}/run", "--resume", "--quiet", "--device", "cpu"]
    replace = ["fit", "{other}", "--out", "{folder}/run", *FIT, *SECOND, "--force"]
    out = ["--out", "{folder}/out/vectors.npy", "--force"]
    return [
        Command("fit", fit, "empty", [resume, [*fit, "--force"]], refused=("unfinished", "new")),
        Command("fit --force", replace, "clustered", [replace, [*resume[:1], "{other}", *resume[2:]]]),
        Command("cluster", ["cluster", "{folder}/run", "-k", "3"], "clustered"),
        Command(
            "report", ["report", "{folder}/run", "--map", "pca", "--quiet"], "reported",
            steps=[{"run/projection-pca.npy": "new", "run/report.html": "old"}],
        ),
        Command("quality", ["quality", "{folder}/run", "--quick", "--quiet", "--device", "cpu"], "clustered"),
        Command("export", ["export", "{folder}/run"], "exported"),
        Command("embed", ["embed", "{folder}/run", "--format", "csv"], "clustered"),
        Command(
            "embed --graph", ["embed", "{folder}/run", "--graph", "{other}", "--device", "cpu", *out], "embedded",
            steps=[{"out/vectors.npy": "absent", "out/vectors.npy.ids.txt": ids} for ids in ("old", "new")],
        ),
        Command(  # clusters without the added nodes are complemented when they are read
            "add", ["add", "{folder}/run", "{other}", "--device", "cpu", "--quiet", "--force"], "clustered",
            steps=[{"run/added-other.parquet": "new", "run/clusters.parquet": "old"}],
        ),
        Command("save", ["save"], "empty", [["save", "force"]], refused=("new",)),
        Command("save force", ["save", "force"], "clustered"),
    ]  # fmt: skip


def write_source(folder, n, n_groups=3, seed=0):
    """Tables of a graph of groups: an id, two numbers and a topic for each node."""
    folder.mkdir()
    draw = np.random.default_rng(seed)
    size, age = np.arange(n) % n_groups + draw.normal(0, 0.1, n), draw.normal(size=n)
    rows = [f"n{i},{size[i]:.3f},{age[i]:.3f},{'xyz'[i % n_groups]}" for i in range(n)]
    (folder / "nodes.csv").write_text("\n".join(["id,size,age,topic", *rows, ""]))
    edges = [f"n{i},n{(i + step) % n}" for i in range(n) for step in (1, n_groups)]
    (folder / "edges.csv").write_text("\n".join(["source,target", *edges, ""]))
    return folder


def write_starts(folder, source, other, run_command):
    """The folders that commands start from; ``run_command`` runs a command line without faults."""
    (folder / "empty").mkdir()
    clustered = folder / "clustered"
    clustered.mkdir()
    run_command(["fit", str(source), "--out", str(clustered / "run"), *FIT, *FIRST])
    run_command(["cluster", str(clustered / "run"), "-k", "5"])
    for name in USERS:
        file = clustered / "run" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("mine")
    for name in ("reported", "exported", "embedded"):
        shutil.copytree(clustered, folder / name)
    run_command(["report", str(folder / "reported" / "run"), "--map", "pca", "--quiet"])
    (folder / "reported" / "run" / "projection-pca.npy").unlink()  # is made again
    run_command(["cluster", str(folder / "reported" / "run"), "-k", "4"])  # changes the next report
    (folder / "exported" / "run" / "model.onnx").write_bytes(b"an earlier export")
    (folder / "embedded" / "out").mkdir()
    run_command(["embed", str(clustered / "run"), "--out", str(folder / "embedded" / "out" / "vectors.npy")])
