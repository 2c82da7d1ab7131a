"""What runs when a recorder gives up its rights: one thread, which gives up all of them."""

import subprocess
import sys
from pathlib import Path

_OPEN = """
import os, sys
from pathlib import Path
import pyarrow as pa
from cotenant.agent.recorder.sandbox import open_store
from cotenant.store.manifest import manifest_path
from cotenant.store.writer import StoreWriter
root = Path(sys.argv[1])
row = {"timestamp_ns": 1, "pid": 1, "tid": 1, "cgroup_id": 7, "comm": "a", "weight": 1}
row |= {"op": "launch", "api": "cuLaunchKernel", "kernel_name": "k", "duration_ns": 1}
with StoreWriter(root, node="a", boot_id="b") as writer:
    writer.append("cuda_events", pa.Table.from_pylist([row]))
    writer.seal(1)
manifest_path(root, "a").unlink()
before = set(os.listdir("/proc/self/task"))
with open_store(root, node="a", boot_id="b") as writer:
    print(len(writer.segments), sorted(set(os.listdir("/proc/self/task")) - before))
"""


def test_a_store_without_its_manifest_is_opened_without_another_thread(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _OPEN, str(tmp_path / "store")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("1 []\n", "")
