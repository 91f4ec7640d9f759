"""The control groups of Linux that limit this process: containers, services and batch jobs are made of them."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

PROCESS = Path("/proc/self")


def control_groups(controller: str, process: Path = PROCESS) -> list[Path]:
    """The folders of the groups of a process, from its own up to the root, of both versions; each may limit it. Empty
    where there are none."""
    try:
        own = [line.split(":", 2)[1:] for line in (process / "cgroup").read_text().splitlines()]
        mounts = [line.split(" - ", 1) for line in (process / "mountinfo").read_text().splitlines()]
    except OSError:
        return []
    path_of = {name: path for names, path in own for name in names.split(",")}  # that of version 2 has no name
    found: list[Path] = []
    for mount, system in mounts:
        name = {"cgroup2": "", "cgroup": controller}.get(system.split(" ", 1)[0])
        if name not in path_of or (name and name not in re.split("[ ,]", system)):
            continue
        root, top = (re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), part) for part in mount.split(" ")[3:5])
        path = PurePosixPath(path_of[name])
        inside = path.relative_to(root).parts if path.is_relative_to(root) else ()  # else another part is mounted
        if ".." in inside:  # the group is above what this process sees
            inside = ()
        found += [Path(top, *inside[:depth]) for depth in range(len(inside), -1, -1)]
    return found
