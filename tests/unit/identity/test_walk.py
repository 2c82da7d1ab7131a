"""What exists is found in every mounted hierarchy."""

from cotenant.identity import Ledger, mounts, survey, walk
from cotenant.identity.walk import Mount

MOUNTINFO = """\
22 1 8:1 / / rw - ext4 /dev/vda rw
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
35 31 0:32 / {root}/memory rw,relatime shared:9 - cgroup cgroup rw,memory
36 31 0:33 / {root}/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct
40 31 0:37 / {root}/systemd rw - cgroup cgroup rw,xattr,name=systemd
41 31 0:38 / {root}/with\\040space rw - cgroup2 cgroup2 rw
42 31 0:38 /docker/x {root}/part rw - cgroup2 cgroup2 rw
"""
CGROUP = "9:name=systemd:/\n4:memory:/a\n2:cpu,cpuacct:/\n0::/\n"


def test_every_hierarchy_is_found_once_with_the_kernels_number(tmp_path):
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "mountinfo").write_text(MOUNTINFO.format(root="/cg"))
    (tmp_path / "self" / "cgroup").write_text(CGROUP)
    found = [(m.hierarchy, m.controllers, str(m.directory), m.root) for m in mounts(tmp_path)]

    assert found == [
        (0, (), "/cg/with space", "/"),
        (2, ("cpu", "cpuacct"), "/cg/cpu", "/"),
        (4, ("memory",), "/cg/memory", "/"),
        (9, ("name=systemd",), "/cg/systemd", "/"),
    ]


def test_each_directory_is_a_cgroup_with_its_inode_as_id(tmp_path):
    (tmp_path / "docker" / "x").mkdir(parents=True)
    (tmp_path / "cgroup.procs").write_text("")
    found = {f.path: f.kernel_id for f in walk(Mount(0, (), tmp_path, "/"))}

    assert found == {
        "/": tmp_path.stat().st_ino,
        "/docker": (tmp_path / "docker").stat().st_ino,
        "/docker/x": (tmp_path / "docker" / "x").stat().st_ino,
    }


def test_a_directory_that_vanishes_is_left_out(tmp_path):
    gone = Mount(0, (), tmp_path / "gone", "/")

    assert list(walk(gone)) == []


def test_a_survey_twice_is_a_survey_once(tmp_path):
    (tmp_path / "team-a").mkdir()
    (tmp_path / "team-b").mkdir()
    ledger = Ledger("n", "b")
    mount = Mount(4, ("memory",), tmp_path, "/")
    counts = [survey(ledger, [mount]), survey(ledger, [mount])]

    assert counts == [3, 3]
    assert sorted(row["tenant"] for row in ledger.rows() if row["hierarchy"] == 4) == [
        "/team-a",
        "/team-b",
    ]


def test_this_machines_hierarchies_can_be_walked():
    found = mounts()
    ledger = Ledger("n", "b")

    assert survey(ledger, found) >= len(found)
