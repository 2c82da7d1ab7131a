"""Which GPU a row belongs to: by the thread's context, by open device files, else unknown."""

import os
import uuid
from collections.abc import Callable
from pathlib import Path

from tests.kernel.conftest import Cgroup, record
from tests.kernel.script import Script, warm

UUIDS = [f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, name)}" for name in ("first", "second")]
TWO = {"COTENANT_SIM_DEVICES": "2", "COTENANT_SIM_UUIDS": ",".join(UUIDS)}

SWITCHES = """
call("cuInit", 0)
for device, form in ((0, "cuDeviceGetUuid"), (1, "cuDeviceGetUuid_v2")):
    call(form, (c_uint64 * 2)(), device)
first, second = (out("cuDevicePrimaryCtxRetain", device) for device in (0, 1))
call("cuCtxSetCurrent", first)
module = out("cuModuleLoadData", b"image")
zero = out("cuModuleGetFunction", module, b"on_first")
call("cuCtxSetCurrent", second)
module = out("cuModuleLoadData", b"image")
one = out("cuModuleGetFunction", module, b"on_second")
call("cuCtxSetCurrent", first)
launch(zero, times=3)
call("cuCtxPushCurrent_v2", second)
launch(one, times=5)
call("cuCtxPopCurrent_v2", byref(c_uint64()))
launch(zero, times=7)

def elsewhere():
    call("cuCtxSetCurrent", second)
    launch(one, times=11)

thread = threading.Thread(target=elsewhere)
thread.start()
thread.join()
third = out("cuCtxCreate_v2", 0, 1)
module = out("cuModuleLoadData", b"image")
launch(out("cuModuleGetFunction", module, b"on_second"), times=13)
call("cuCtxDestroy_v2", third)
call("cuCtxSetCurrent", first)
launch(zero, times=17)
"""


def by_gpu(recording, pid: int) -> dict:
    rows = recording.sql(
        f"select gpu, kernel_name, count(*) as n from cuda_events where pid = {pid} "
        "and op = 'launch' group by all"
    )
    return {(r["gpu"], r["kernel_name"]): r["n"] for r in rows}


def test_the_context_of_the_thread_tells_the_gpu(cgroup: Cgroup, store: Path) -> None:
    with record(store) as recording:
        warm(recording, cgroup)
        script = Script(cgroup, SWITCHES, **TWO)
        script.end()
    assert by_gpu(recording, script.pid) == {
        (UUIDS[0], "on_first"): 3 + 7 + 17,
        (UUIDS[1], "on_second"): 5 + 11 + 13,
    }


def nodes(place: Path) -> list[Path]:
    """Device files as the NVIDIA driver has them; nobody answers behind them."""
    made = []
    caps = place / "nvidia-caps"
    caps.mkdir()
    for path, minor in ((place / "nvidia0", 0), (place / "nvidia1", 1)):
        os.mknod(path, 0o666 | 0o020000, os.makedev(195, minor))
        made.append(path)
    os.mknod(caps / "nvidia-cap21", 0o666 | 0o020000, os.makedev(234, 21))
    return [*made, caps / "nvidia-cap21"]


OPENS = """
files = [os.open(path, os.O_PATH) for path in FILES]
context, module = start()
kernel = out("cuModuleGetFunction", module, b"work")
say(ready=1)
wait()
launch(kernel, times=5)
say(ready=2)
wait()
"""


def opens(files: list[Path]) -> str:
    return OPENS.replace("FILES", repr([str(file) for file in files]))


def test_one_open_device_file_tells_the_gpu_and_two_tell_nothing(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path
) -> None:
    first, second, instance = nodes(tmp_path)
    cases = {
        "/dev/nvidia0": [first],
        None: [first, second],
        "MIG-cap21": [first, instance],
    }
    running = {gpu: Script(cgroups(), opens(files)) for gpu, files in cases.items()}
    for script in running.values():
        script.heard()
    with record(store) as recording:
        warm(recording, cgroups())
        scripts = {gpu: Script(cgroups(), opens(files)) for gpu, files in cases.items()}
        for script in scripts.values():
            script.heard()
        recording.wait_told("select 1 from containers where sharing_mode = 'mig'")
        everyone = [*running.items(), *scripts.items()]
        for _, script in everyone:
            script.go_on()
            script.heard()
        launches = f"pid in {tuple(script.pid for _, script in everyone)} and op = 'launch'"
        recording.wait_for(f"select 1 from cuda_events where {launches} having count(*) = 30")
        for _, script in everyone:
            script.go_on()
            script.end()
    rows = recording.sql(
        f"select pid, gpu, count(*) as n from cuda_events where {launches} group by all"
    )
    assert {(r["pid"], r["gpu"]): r["n"] for r in rows} == {
        (script.pid, gpu): 5 for gpu, script in everyone
    }


def test_how_tenants_share_a_gpu_is_told(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path
) -> None:
    first, second, instance = nodes(tmp_path)
    tenants = {name: cgroups() for name in ("a", "b", "alone", "mps", "mig")}
    mps = {"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)}
    with record(store) as recording:
        warm(recording, cgroups())
        scripts = [
            Script(tenants["a"], opens([first])),
            Script(tenants["b"], opens([first])),
            Script(tenants["alone"], opens([second])),
            Script(tenants["mps"], opens([second, first]), **mps),
            Script(tenants["mig"], opens([first, instance])),
        ]
        for script in scripts:
            script.heard()
        recording.wait_for(
            "select 1 from containers where sharing_mode is not null having count(*) = 5"
        )
        for script in scripts:
            script.go_on()
            script.heard()
            script.go_on()
            script.end()
    rows = recording.sql("select cgroup_path, sharing_mode from containers")
    modes = {r["cgroup_path"]: r["sharing_mode"] for r in rows}
    assert {name: modes[f"/{group.name}"] for name, group in tenants.items()} == {
        "a": "timeslice",
        "b": "timeslice",
        "alone": "exclusive",
        "mps": "mps",
        "mig": "mig",
    }
