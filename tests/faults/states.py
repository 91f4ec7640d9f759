"""What is in a folder, without what differs between two equal runs: times, and process ids."""

import hashlib
import json
import re

import torch

TIMES = {"environment.json": "time", "model.json": "seconds"}
# Files of the user whose names begin like ours.
USERS = ("embeddings-mine.csv", "projection-mine.npy", "quality/mine.txt", "checkpoint-backup/mine.txt")
TIME_IN_REPORT = re.compile(rb'"(time":"[^"]*"|seconds":[0-9.]+)')
LOGS = ("history.jsonl", "evaluations.jsonl")


def contents(folder):
    """The digest of each file below a folder."""
    files = sorted(file for file in folder.rglob("*") if file.is_file()) if folder.is_dir() else []
    return {str(file.relative_to(folder)): _digest(file) for file in files}


def _digest(file):
    content = file.read_bytes()
    if file.name in TIMES:
        record = json.loads(content)
        del record[TIMES[file.name]]
        return json.dumps(record, sort_keys=True)
    if file.name == "checkpoint.pt":
        checkpoint = torch.load(file, weights_only=True)
        sums = [value.sum().item() for value in checkpoint["method"].values() if isinstance(value, torch.Tensor)]
        return f"step {checkpoint['step']} {sums}"
    if file.name == "report.html":
        content = TIME_IN_REPORT.sub(b"", content)
    if file.name in LOGS:
        return content.decode()
    return hashlib.sha256(content).hexdigest()


def state_of(found, old, new, steps=()):
    """``old``, ``new``, one of the steps between them, or ``unfinished``: a part of the new run that can be resumed;
    otherwise a mixture."""
    if found == old:
        return "old"
    if found == new:
        return "new"
    for step in steps:
        changed = {name: {"old": old, "new": new, "absent": {}}[version].get(name) for name, version in step.items()}
        if found == {name: digest for name, digest in (old | changed).items() if digest is not None}:
            return "step"
    if "run/config.toml" in found and "run/model.json" not in found and _is_part(found, new, old):
        return "unfinished"
    wrong = sorted(name for name in found.keys() | new.keys() if found.get(name) not in (old.get(name), new.get(name)))
    return f"mixture: {wrong or sorted(name for name in found if found[name] != new.get(name))}"


def _is_part(found, new, old):
    """The old run, which waits in .previous until the new one is complete, is not a part of the new one."""
    waiting = {name: digest for name, digest in found.items() if name.startswith("run/.previous/")}
    own = {name: digest for name, digest in old.items() if name.removeprefix("run/") not in USERS}
    if waiting and waiting != {name.replace("run/", "run/.previous/", 1): digest for name, digest in own.items()}:
        return False
    for name, digest in found.items():
        if name in waiting or digest == new.get(name):
            continue
        base = name.rpartition("/")[2]
        if base in LOGS and new.get(name, "").startswith(digest.rpartition("\n")[0]):
            continue
        if base == "checkpoint.pt" and digest != old.get(name):
            continue
        return False
    return True
