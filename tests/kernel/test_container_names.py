"""Path layouts of the kubelet and CRI-O, made by a real runc with the annotations they write."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cotenant.sim.image import build_root
from tests.kernel.conftest import record, truth

PLACE = "/usr/lib/x86_64-linux-gnu"
CONTAINER = "c0ffee" + "7" * 58
POD_UID = "98005c3b-b650-4efe-8b91-2164d784397f"
SLICE = f"kubepods-burstable-pod{POD_UID.replace('-', '_')}.slice"

CONTAINERD = {
    "io.kubernetes.cri.container-type": "container",
    "io.kubernetes.cri.container-name": "trainer",
    "io.kubernetes.cri.sandbox-name": "trainer-0",
    "io.kubernetes.cri.sandbox-namespace": "team-b",
    "io.kubernetes.cri.sandbox-uid": POD_UID,
}
CRIO = {
    "io.kubernetes.container.name": "trainer",
    "io.kubernetes.pod.name": "trainer-0",
    "io.kubernetes.pod.namespace": "team-b",
    "io.kubernetes.pod.uid": POD_UID,
    "io.kubernetes.cri-o.ContainerType": "container",
    "io.container.manager": "cri-o",
}
# Where each runtime keeps the configuration of a container that runs.
STATE = {
    "cri-containerd": f"/run/containerd/io.containerd.runtime.v2.task/k8s.io/{CONTAINER}",
    "crio": f"/run/containers/storage/overlay-containers/{CONTAINER}/userdata",
}


def configuration(bundle: Path, cgroup: str, annotations: dict[str, str]) -> dict[str, Any]:
    """What runc is told: a workload in a cgroup of this path."""
    subprocess.run(["runc", "spec", "--bundle", bundle], check=True)
    spec = json.loads((bundle / "config.json").read_text())
    spec["process"] |= {
        "terminal": False,
        "args": ["/bin/workload", "--steps", "101"],
        "env": [f"LD_LIBRARY_PATH={PLACE}", "COTENANT_SIM_LOG=/log/"],
        "rlimits": [],
    }
    spec["root"] = {"path": "rootfs", "readonly": False}
    spec["annotations"] = annotations
    spec["linux"]["cgroupsPath"] = cgroup
    spec["linux"]["resources"] = {}
    spec["mounts"].append(
        {"destination": "/log", "source": str(bundle / "log"), "type": "bind", "options": ["rbind"]}
    )
    return spec


@pytest.mark.parametrize(
    ("runtime", "prefix", "annotations"),
    [("containerd", "cri-containerd", CONTAINERD), ("cri-o", "crio", CRIO)],
)
def test_a_pod_is_named_from_what_its_runtime_wrote(
    runtime: str, prefix: str, annotations: dict[str, str], store: Path, tmp_path: Path
) -> None:
    cgroup = f"/kubepods.slice/kubepods-burstable.slice/{SLICE}/{prefix}-{CONTAINER}.scope"
    (tmp_path / "log").mkdir()
    (tmp_path / "rootfs").mkdir()
    build_root(tmp_path / "rootfs", PLACE)
    spec = configuration(tmp_path, cgroup, annotations)
    (tmp_path / "config.json").write_text(json.dumps(spec))
    state = Path(STATE[prefix])
    state.mkdir(parents=True)
    shutil.copy(tmp_path / "config.json", state)
    try:
        with record(store) as recording:
            done = subprocess.run(
                ["runc", "run", "--bundle", tmp_path, CONTAINER],
                capture_output=True, text=True, check=False, timeout=60,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
    finally:
        shutil.rmtree(state)
        remove_cgroups()
    (row,) = recording.sql(
        "select tenant, container_id, pod, namespace, pod_uid, qos, runtime, trust, "
        "count(*) filter (op = 'launch') as launches from containers "
        f"join cuda_events using (cgroup_id) where container_id = '{CONTAINER}' group by all"
    )
    calls = [call for file in (tmp_path / "log").iterdir() for call in truth(file)]
    assert row == {
        "tenant": "team-b/trainer-0",
        "container_id": CONTAINER,
        "pod": "trainer-0",
        "namespace": "team-b",
        "pod_uid": POD_UID,
        "qos": "burstable",
        "runtime": runtime,
        "trust": "host",
        "launches": sum(call["op"] == "launch" for call in calls),
    }


def remove_cgroups() -> None:
    """The pod's empty parents, which a kubelet would remove."""
    for top in Path("/sys/fs/cgroup").glob("*/kubepods.slice"):
        for directory, _, _ in os.walk(top, topdown=False):
            os.rmdir(directory)


def test_a_runtime_that_hangs_costs_a_name_and_no_row(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    path = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(path))
        deaf.listen()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
        cgroup = Path("/sys/fs/cgroup/unified") / "docker" / ("d" * 64)
        cgroup.mkdir(parents=True)
        try:
            (tmp_path / "log").mkdir()
            with record(store) as recording:
                subprocess.run(
                    [os.environ.get("SHELL", "/bin/sh"), "-c",
                     f"echo $$ > {cgroup}/cgroup.procs; exec sim/build/workload --steps 101"],
                    env={**os.environ, "LD_LIBRARY_PATH": "sim/build",
                         "COTENANT_SIM_LOG": f"{tmp_path}/log/"},
                    cwd=Path(__file__).parents[2], check=True, capture_output=True,
                )  # fmt: skip
        finally:
            cgroup.rmdir()
    calls = [call for file in (tmp_path / "log").iterdir() for call in truth(file)]
    (row,) = recording.sql(
        "select container_id, name, count(*) filter (op = 'launch') as launches "
        f"from containers join cuda_events using (cgroup_id) where container_id = '{'d' * 64}' "
        "group by all"
    )
    assert row == {
        "container_id": "d" * 64,
        "name": None,
        "launches": sum(call["op"] == "launch" for call in calls),
    }
