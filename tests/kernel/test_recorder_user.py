"""The user that a recorder is: whatever the store was, and wherever it and the program lie."""

import os
import subprocess
from pathlib import Path

import pyarrow as pa

from cotenant.confine.user import RecorderUser
from cotenant.store.writer import StoreWriter
from tests.kernel.conftest import COTENANT, ROOT, Cgroup, record
from tests.kernel.test_overload import warm
from tests.kernel.test_privileges import status

STRANGER = 65533
OLD_PID = 4_194_305  # Larger than any that there is.

# A checkout, and beside it a store on a file system of its own, below what only root may enter.
BELOW = """
set -e
mount -t tmpfs -o mode=0700 tmpfs {place}
mkdir {place}/checkout
mount --bind {root} {place}/checkout
cd {place}/checkout
PYTHONPATH={place}/checkout/src .venv/bin/python -m cotenant record --for 1s --store {place}/store
stat -c %u {place}/store/manifest/*.json
"""


def owners(store: Path) -> set[int]:
    return {path.lstat().st_uid for path in (store, *store.rglob("*"))}


def write_as_root(store: Path) -> None:
    """A store as a recorder that stayed root would have left it."""
    row = {"timestamp_ns": 1, "pid": OLD_PID, "tid": 1, "cgroup_id": 7, "comm": "a", "weight": 1}
    row |= {"op": "launch", "api": "cuLaunchKernel", "kernel_name": "k", "duration_ns": 1}
    with StoreWriter(store, node=os.uname().nodename, boot_id="b") as writer:
        writer.append("cuda_events", pa.Table.from_pylist([row]))
        writer.seal(1)
    assert owners(store) == {0}


def test_a_store_of_roots_is_taken_over_and_survives_a_kill(cgroup: Cgroup, store: Path) -> None:
    write_as_root(store)
    with record(store, "--quiet") as recording:
        warm(recording, cgroup)
        recording.process.kill()
        recording.process.wait()
        recording.stopped = True
    with record(store, "--quiet") as recording:
        warm(recording, cgroup)
    assert owners(store) == {RecorderUser.chosen(None).uid}
    assert recording.sql(f"select count(*) as n from cuda_events where pid = {OLD_PID}") == [
        {"n": 1}
    ]
    assert list(store.rglob("*.part")) == []


def test_a_store_of_another_user_is_refused_unless_the_recorder_is_that_user(store: Path) -> None:
    store.mkdir()
    os.chown(store, STRANGER, STRANGER)
    command = [*COTENANT, "record", "--store", str(store)]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    uid = RecorderUser.chosen(None).uid
    assert refused.stderr == (
        f"cotenant: {store} belongs to user {STRANGER}, who could redirect writes; "
        f"`chown` it to user {uid}, or choose another --store\n"
    )
    assert owners(store) == {STRANGER}
    with record(store, "--quiet", "--user", str(STRANGER)) as recording:
        assert status(recording.process.pid)["Uid"].split() == [str(STRANGER)] * 4
    assert owners(store) == {STRANGER}


def test_a_checkout_and_a_store_may_lie_where_only_root_can_go(tmp_path: Path) -> None:
    script = BELOW.format(place=tmp_path, root=ROOT)
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"recording into {tmp_path}/store" in done.stderr
    assert f"Next: cotenant tenants --store {tmp_path}/store" in done.stdout
    assert done.stdout.splitlines()[-1] == str(RecorderUser.chosen(None).uid)
