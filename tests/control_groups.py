"""A made-up process in a control group, as /proc and /sys/fs/cgroup show it."""

from pathlib import Path


def process_in_group(folder: Path, version: int, path: str = "/", controller: str = "memory", root: str = "/"):
    """The folder of the process, and that of its group; ``root`` is the group that is mounted."""
    process, top = folder / "proc", folder / "cgroup of all"
    process.mkdir(parents=True)
    names = "" if version == 2 else f"{controller},other"
    (process / "cgroup").write_text(f"3:devices:/elsewhere\n{3 - version}:{names}:{path}\n")
    mounted = str(top).replace(" ", r"\040")
    system = "cgroup2 cgroup2 rw" if version == 2 else f"cgroup cgroup rw,{controller},other"
    (process / "mountinfo").write_text(
        f"23 1 0:5 / /proc rw - proc proc rw\n31 23 0:28 {root} {mounted} rw,relatime shared:7 - {system}\n"
    )
    group = top / Path(path).relative_to(root if Path(path).is_relative_to(root) else "/")
    group.mkdir(parents=True)
    return process, group
