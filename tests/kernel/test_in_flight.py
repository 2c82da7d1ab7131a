"""Calls that have not returned: visible while they hang, and left behind by those that die."""

import os
import signal
from pathlib import Path

from tests.kernel.conftest import Cgroup, record
from tests.kernel.script import Script, warm

HANGS = """
context, module = start()
kernel = out("cuModuleGetFunction", module, b"endless")
stream = out("cuStreamCreate", 1)
launch(kernel, stream)
say(stream=stream, tid=threading.get_native_id())
call("cuStreamSynchronize", stream)
"""


def test_a_call_under_way_is_visible_while_it_hangs(cgroup: Cgroup, store: Path) -> None:
    with record(store) as recording:
        warm(recording, cgroup)
        script = Script(cgroup, HANGS, COTENANT_SIM_KERNEL_NS="endless=3600000000000")
        said = script.heard()
        rows = recording.wait_for(
            f"select f.*, c.cgroup_path from in_flight f join containers c using (cgroup_id) "
            f"where pid = {script.pid} and function = 'cuStreamSynchronize'"
        )
        assert {(r["tid"], r["stream"], r["cgroup_path"]) for r in rows} == {
            (said["tid"], said["stream"], f"/{cgroup.name}")
        }
        assert len({r["began_ns"] for r in rows}) == 1
        assert all(r["began_ns"] < r["timestamp_ns"] for r in rows)
        os.kill(script.pid, signal.SIGKILL)
        script.end(-signal.SIGKILL)


def test_a_thread_that_ends_inside_a_call_leaves_a_row_without_result(
    cgroup: Cgroup, store: Path
) -> None:
    with record(store) as recording:
        warm(recording, cgroup)
        script = Script(cgroup, HANGS, COTENANT_SIM_KERNEL_NS="endless=3600000000000")
        said = script.heard()
        recording.wait_for(f"select 1 from in_flight where pid = {script.pid}")
        os.kill(script.pid, signal.SIGKILL)
        script.end(-signal.SIGKILL)
    rows = recording.sql(
        "select op, api, stream, result, duration_ns from cuda_events "
        f"where pid = {script.pid} and op = 'sync'"
    )
    assert rows == [
        {
            "op": "sync",
            "api": "cuStreamSynchronize",
            "stream": said["stream"],
            "result": None,
            "duration_ns": None,
        }
    ]
    losses = recording.sql("select sum(seen - stored - shed - lost) as missing from losses")
    assert losses == [{"missing": 0}]
