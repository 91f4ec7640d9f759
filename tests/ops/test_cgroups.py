"""The folders of the groups of a process, from made-up files of the system."""

from afgrl.ops.cgroups import control_groups
from tests.control_groups import process_in_group


def test_the_own_group_and_those_above(tmp_path):
    for version in (1, 2):
        process, group = process_in_group(tmp_path / str(version), version, "/system.slice/jobs/mine")
        assert control_groups("memory", process) == [group, *group.parents[:3]]
    first = tmp_path / "1" / "proc"
    assert control_groups("other", first) == control_groups("memory", first)
    assert control_groups("devices", first) == []  # not mounted


def test_a_container_sees_a_part_of_the_groups(tmp_path):
    process, group = process_in_group(tmp_path / "a", 1, "/docker/abc/inner", root="/docker/abc")
    assert control_groups("memory", process) == [group, group.parent]
    process, _ = process_in_group(tmp_path / "b", 2, "/", root="/docker/abc")  # another one is mounted
    assert control_groups("memory", process) == [tmp_path / "b" / "cgroup of all"]
    (process / "cgroup").write_text("0::/../../elsewhere\n")
    assert control_groups("memory", process) == [tmp_path / "b" / "cgroup of all"]


def test_where_there_are_none(tmp_path):
    assert control_groups("memory", tmp_path) == []
