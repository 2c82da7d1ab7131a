"""A path is the same text wherever it is read, whatever bytes it has."""

import os
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from cotenant.agent.helper.fair_queue import tenant_of
from cotenant.agent.recorder.ingest.clock import WallClock
from cotenant.agent.recorder.ingest.facts import Facts
from cotenant.agent.recorder.processes.communicators import Communicators
from cotenant.agent.recorder.processes.kernel_names import KernelNames
from cotenant.identity import Ledger, mounts, parse_path, survey
from cotenant.identity.runtimes.placement import process_is_in
from cotenant.identity.text import lines, path_text
from cotenant.identity.walk import Mount, walk
from cotenant.schema.events import ENUMS
from cotenant.schema.layouts import FACT

# What the kernel takes as the name of a cgroup.
NAMES = st.binary(min_size=1, max_size=40).filter(
    lambda name: not set(name) & set(b"/\n\0") and name not in (b".", b"..")
)
BORN = next(value for value, name in ENUMS["fact_kind"].items() if name == "CGROUP_BORN")
HEX = "c" * 64


@given(st.binary())
def test_any_bytes_become_text_that_every_table_can_hold(raw):
    assert path_text(raw).encode().decode() == path_text(raw)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_utf8_stays_as_it_is(text):
    assert path_text(text.encode()) == text


@given(st.lists(NAMES))
def test_a_path_is_its_names(names):
    assert path_text(b"/".join(names)) == "/".join(map(path_text, names))


@given(st.lists(NAMES))
def test_only_a_newline_ends_a_line(names):
    assert lines(b"\n".join(names)) == [path_text(name) for name in names or [b""]]


def fact(kernel_id, path):
    head = np.zeros(1, FACT)
    head["kind"], head["handle"], head["size"] = BORN, kernel_id, len(path)
    return head.tobytes() + path


@given(NAMES)
@example(b"bad\xff")
@example("é".encode("latin-1"))
@example("é".encode())
@example(b"cut\xe2\x82")
@example(b"\xed\xb3\xbf")
def test_walk_and_tracepoint_tell_the_same_row(name):
    ledger = Ledger("n", "b")
    facts = Facts(ledger, KernelNames(), Communicators(), WallClock())
    with tempfile.TemporaryDirectory() as directory:
        os.mkdir(os.fsencode(directory) + b"/" + name)
        survey(ledger, [Mount(0, (), Path(directory), "/")])
        (found,) = (f for f in walk(Mount(0, (), Path(directory), "/")) if f.path != "/")
        before = ledger.row(0, found.kernel_id)
        version = ledger.version
        facts.take([fact(found.kernel_id, b"/" + name)])
        assert os.stat(found.directory).st_ino == found.kernel_id

    assert before["cgroup_path"] == path_text(b"/" + name)
    assert ledger.row(0, found.kernel_id)["cgroup_path"] == before["cgroup_path"]
    assert ledger.version == version + 1  # It learned when the cgroup was made, no more.


def proc(directory, cgroup):
    (directory / "7").mkdir()
    (directory / "7" / "cgroup").write_bytes(cgroup)
    return directory


@given(NAMES)
@example(b"a\x0b0::")
@example(b"a\r0::")
@example("a\u20280::".encode())
def test_a_process_is_found_in_its_cgroup(name):
    with tempfile.TemporaryDirectory() as directory:
        there = proc(Path(directory), b"4:memory:/\n0::/" + name + b"/docker/x\n")

        assert process_is_in(7, path_text(b"/" + name), there)
        assert not process_is_in(7, "/docker", there)


@given(NAMES)
@example(b"a\x0b0::")
@example(b"a\r0::")
def test_a_name_cannot_pass_for_another_line(name):
    with tempfile.TemporaryDirectory() as directory:
        there = proc(Path(directory), f"0::/docker/{HEX}/".encode() + name + b"/docker/victim\n")

        assert tenant_of(7, str(there)) == f"/docker/{HEX}"


def test_a_mount_may_have_any_name(tmp_path):
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_bytes(b"4:memory:/bad\xff\x0b9:cpu:/\n0::/\n")
    (tmp_path / "self" / "mountinfo").write_bytes(
        b"35 31 0:32 /bad\xff\\040x /cg\xff\x0b/memory rw - cgroup cgroup rw,memory\n"
    )
    (mount,) = mounts(tmp_path)

    assert os.fsencode(mount.directory) == b"/cg\xff\x0b/memory"
    assert mount.root == "/bad\\xff x"
    assert mount.hierarchy == 4


def test_a_container_below_an_odd_name_is_one_subject():
    path = path_text(b"/bad\xff/docker-" + HEX.encode() + b".scope")

    assert parse_path(path).subject_path == path
