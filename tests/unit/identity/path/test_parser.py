"""Cgroup paths are parsed right, on the shared sample and on every kind of component."""

import json
from pathlib import Path

import pytest

from cotenant.identity import Owner, Trust, parse_file, parse_line, parse_path
from cotenant.identity.__main__ import PARSERS

CASES = json.loads((Path(__file__).parent / "cgroup_cases.json").read_text())["cases"]
A, B, C = "a" * 64, "b" * 64, "c" * 64
UID = "98005c3b-b650-4efe-8b91-2164d784397f"
UID_ = UID.replace("-", "_")
STATIC = "0123456789abcdef0123456789abcdef"
TASK = "dc454d1e84c0478fa8ed683523fe7e55"
ALLOC = "b30be889-ebb4-8524-cc84-bfd79acd6057"
KIND = (
    "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice"
    f"/kubelet-kubepods-besteffort-pod{UID_}.slice/cri-containerd-{B}.scope"
)
USER = "/user.slice/user-1000.slice/user@1000.service"


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_every_case_of_the_sample_is_exact(case):
    got = PARSERS[case["input_kind"]](case["input"]).as_json()

    assert {key: got[key] for key in case["expect"]} == case["expect"]


PATHS = {
    # Docker
    f"/docker/{A}": {"runtime": "docker", "container_id": A},
    f"/{A}": {"runtime": "docker", "container_id": A},
    f"/system.slice/docker-{A}.scope/init": {"runtime": "docker", "container_id": A},
    f"/custom/{A}": {"runtime": "unknown", "container_id": A},
    f"/custom.slice/docker-{A}.scope": {"runtime": "docker", "container_id": A},
    f"/actions_job/{A}": {"runtime": "docker", "container_id": A},
    f"/system.slice/docker.service/docker/{A}": {"container_id": A, "unit": "docker.service"},
    f"/wsl-user/distro-2/systemd/system.slice/docker-{A}.scope": {
        "runtime": "docker",
        "container_id": A,
        "unit": f"docker-{A}.scope",
    },
    f"{USER}/user.slice/docker-{A}.scope": {
        "runtime": "docker",
        "container_id": A,
        "unit": "user@1000.service",
        "user_unit": f"docker-{A}.scope",
        "user_uid": 1000,
        "trust": "user",
    },
    f"/system.slice/docker-{A}.scope/docker/{B}": {
        "runtime": "docker",
        "container_id": B,
        "outer_container_id": A,
        "trust": "nested",
    },
    "/system.slice/docker-5cf82fwiumld3vcs5d5l5pzyv.scope": {
        "runtime": "buildkit",
        "container_id": "5cf82fwiumld3vcs5d5l5pzyv",
    },
    f"/docker/{A}/buildkit/5cf82fwiumld3vcs5d5l5pzyv": {
        "runtime": "buildkit",
        "outer_container_id": A,
    },
    f"/docker/{A}a": {"runtime": "none", "container_id": None},
    "/docker": {"runtime": "none"},
    # Kubernetes
    f"/kubepods.slice/kubepods-pod{UID_}.slice/crio-{A}.scope/container": {
        "runtime": "cri-o",
        "container_id": A,
        "pod_uid": UID,
        "qos": "guaranteed",
    },
    f"/kubepods/burstable/pod{STATIC}/{A}": {"pod_uid": STATIC, "qos": "burstable"},
    f"/kubepods/burstable/pod{UID}": {"runtime": "unknown", "pod_uid": UID, "container_id": None},
    f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID_}.slice": {
        "runtime": "unknown",
        "pod_uid": UID,
        "qos": "burstable",
        "unit": None,
    },
    "/kubepods/burstable": {"runtime": "none", "qos": None},
    f"/kubepods.slice/kubepods-pod{UID_}.slice/nerdctl-{A}.scope": {"runtime": "containerd"},
    f"/kubepods.slice/kubepods-pod{UID_}.slice/isula-{A}.scope": {
        "runtime": "unknown",
        "container_id": A,
    },
    f"/system.slice/containerd.service/kubepods-burstable-pod{UID_}.slice:cri-containerd:{A}": {
        "runtime": "containerd",
        "container_id": A,
        "pod_uid": UID,
        "qos": "burstable",
        "unit": "containerd.service",
    },
    f"/system.slice/docker-{A}.scope{KIND}": {
        "runtime": "containerd",
        "container_id": B,
        "outer_container_id": A,
        "pod_uid": UID,
        "qos": "besteffort",
        "unit": f"docker-{A}.scope",
    },
    f"/docker/{A}/kubepods/besteffort/pod{UID}/{B}": {
        "runtime": "unknown",
        "container_id": B,
        "outer_container_id": A,
    },
    f"/kubelet/kubepods/besteffort/pod{UID}/{B}": {"container_id": B, "qos": "besteffort"},
    f"/kubepods/pod{UID}/{A}/docker/{B}": {
        "runtime": "docker",
        "outer_container_id": A,
        "pod_uid": UID,
    },
    # Supervisors are not the workload.
    f"/kubepods/pod{UID}/crio-conmon-{A}": {
        "runtime": "cri-o",
        "container_id": None,
        "pod_uid": UID,
    },
    f"/machine.slice/libpod-conmon-{A}.scope": {
        "runtime": "podman",
        "container_id": None,
        "unit": f"libpod-conmon-{A}.scope",
    },
    "/libpod_parent/conmon": {"runtime": "podman", "container_id": None},
    "/lxc.monitor.x1": {"runtime": "lxc", "container_id": None},
    "/lxc.monitor/x1": {"runtime": "lxc", "container_id": None},
    "/machine.slice/systemd-nspawn@deb.service/supervisor": {
        "runtime": "systemd-nspawn",
        "container_id": None,
    },
    # Podman
    f"/machine.slice/libpod-{A}.scope/container": {"runtime": "podman", "container_id": A},
    f"/machine.slice/machine-libpod_pod_{B}.slice/libpod-{A}.scope": {
        "runtime": "podman",
        "container_id": A,
        "outer_container_id": None,
        "extra": {"podman_pod_id": B},
    },
    f"/libpod_parent/libpod-{A}": {"runtime": "podman", "container_id": A},
    f"/libpod_parent/{B}/libpod-{A}": {"container_id": A, "outer_container_id": None},
    f"{USER}/app.slice/web.service/libpod-payload-{A}": {
        "runtime": "podman",
        "container_id": A,
        "user_unit": "web.service",
    },
    # containerd
    f"/default/{A}": {
        "runtime": "containerd",
        "container_id": A,
        "extra": {"containerd_namespace": "default"},
    },
    "/default/train": {"runtime": "containerd", "container_id": "train"},
    f"/default/train/docker/{A}": {"container_id": A, "outer_container_id": "train"},
    "/user/1000.user/c2.session": {"runtime": "none", "container_id": None},
    "/nope": {"runtime": "none"},
    # ECS, Fargate
    f"/ecs/{TASK}/{A}": {
        "runtime": "ecs",
        "container_id": A,
        "extra": {"ecs_task_id": TASK},
    },
    f"/ecs/{TASK}/{TASK}-2531612879": {
        "runtime": "ecs",
        "container_id": f"{TASK}-2531612879",
        "extra": {"ecs_task_id": TASK},
    },
    f"/ecs/{TASK}/{TASK}-25/kubepods/burstable/pod{UID}/{A}": {
        "runtime": "unknown",
        "container_id": A,
        "outer_container_id": f"{TASK}-25",
        "pod_uid": UID,
    },
    # LXC, sysbox, nspawn, libvirt
    "/lxc/104/ns/system.slice/ssh.service": {
        "runtime": "lxc",
        "container_id": "104",
        "unit": None,
        "extra": {"inner_unit": "ssh.service"},
    },
    "/lxc.payload.web-1/init.scope": {
        "container_id": "web-1",
        "extra": {"inner_unit": "init.scope"},
    },
    f"/lxc.payload.web/system.slice/docker-{A}.scope": {
        "runtime": "docker",
        "container_id": A,
        "outer_container_id": "web",
        "unit": None,
    },
    f"/docker/{A}/syscont-cgroup-root/system.slice/docker-{B}.scope": {
        "container_id": B,
        "outer_container_id": A,
    },
    "/machine.slice/machine-deb\\x2d12.scope/payload/init.scope": {
        "runtime": "systemd-nspawn",
        "container_id": "deb-12",
    },
    "/machine/qemu-1-vm.libvirt-qemu/vcpu0": {
        "runtime": "libvirt-qemu",
        "container_id": "qemu-1-vm",
    },
    "/libvirt/qemu/vm": {"runtime": "libvirt-qemu", "container_id": "vm"},
    # Apptainer
    "/system.slice/apptainer-4711.scope": {
        "runtime": "apptainer",
        "container_id": None,
        "unit": "apptainer-4711.scope",
    },
    f"{USER}/user.slice/apptainer-4711.scope": {"runtime": "apptainer", "user_uid": 1000},
    "/singularity/4711": {"runtime": "apptainer", "container_id": None},
    # Slurm
    "/slurm_n7/uid_1000/job_211/step_batch/task_0": {
        "runtime": "slurm",
        "slurm_job_id": 211,
        "slurm_step": "batch",
        "slurm_task": "0",
        "slurm_uid": 1000,
        "extra": {"slurm_node": "n7"},
    },
    "/system.slice/slurmstepd.scope/s5K1KKYAYG5D00/step_extern/user/task_special": {
        "slurm_sluid": "s5K1KKYAYG5D00",
        "slurm_step": "extern",
        "slurm_task": "special",
    },
    "/system.slice/slurmstepd.scope/s5K1KKYAYG5DIL/step_0": {
        "runtime": "systemd",
        "slurm_sluid": None,
    },
    "/system.slice/slurmstepd.scope/system": {"runtime": "systemd", "slurm_job_id": None},
    f"/docker/{A}/system.slice/slurmstepd.scope/job_9/step_0": {
        "runtime": "docker",
        "slurm_job_id": None,
    },
    # Others
    f"/nomad.slice/reserve.slice/{ALLOC}.web.v2.scope": {
        "runtime": "nomad",
        "extra": {"nomad_alloc_id": ALLOC, "nomad_task": "web.v2"},
    },
    "/pbs_jobs.service/jobs/12345[7].server": {
        "runtime": "pbs",
        "extra": {"pbs_job_id": "12345[7]"},
    },
    "/system.slice/condor.service/condor_var_lib_condor_execute_slot1_3@n7": {
        "runtime": "htcondor",
        "unit": "condor.service",
        "extra": {"htcondor_slot": "slot1_3"},
    },
    "/system/apid": {"runtime": "talos", "extra": {"talos_service": "apid"}},
    # systemd
    f"{USER}/app.slice/app-code.scope": {"user_unit": "app-code.scope", "runtime": "systemd"},
    "/system.slice": {"runtime": "systemd", "unit": None},
    "/_cpu.service": {"unit": "cpu.service"},
    "/": {"runtime": "none"},
    "": {"runtime": "none"},
    # Another cgroup namespace
    f"/../../pod{UID}/{A}": {"container_id": A, "pod_uid": UID, "qos": None},
    f"/../besteffort/pod{UID}/{A}": {"qos": "besteffort"},
    f"/../cri-containerd-{A}.scope": {"runtime": "containerd", "trust": "unverified"},
    "/..": {"runtime": "none"},
}


@pytest.mark.parametrize("path", PATHS)
def test_every_kind_of_component_is_read(path):
    got = parse_path(path).as_json()

    assert {key: got[key] for key in PATHS[path]} == PATHS[path]


@pytest.mark.parametrize(
    "mount",
    ["", "/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/cpu,cpuacct", "/memory"],
)
def test_a_mounted_path_says_the_same_as_the_kernels(mount):
    assert parse_path(f"/proc/1/root/sys/fs/cgroup/docker/{A}", mounted=True).container_id == A
    assert parse_path(f"{mount}/docker/{A}", mounted=True) == parse_path(f"/docker/{A}")


def test_a_line_is_split_at_its_first_two_colons_only():
    path = f"/system.slice:docker:{A}"

    assert parse_line(f"0::{path}").container_id == A
    assert parse_line(f"3:cpu,cpuacct:{path}\n").container_id == A


@pytest.mark.parametrize("text", ["", "0::", "::/", "x:y:/docker", "0:/docker", "0::docker", "0"])
def test_a_malformed_line_says_nothing(text):
    assert parse_line(text).runtime == "none"


def test_a_slurm_job_in_one_hierarchy_only_is_found():
    text = (
        "11:freezer:/slurm/uid_1000/job_5/step_0\n"
        "4:memory:/system.slice/slurmd.service\n0::/system.slice/slurmd.service\n"
    )
    got = parse_file(text).as_json()

    assert (got["runtime"], got["slurm_job_id"], got["unit"]) == ("slurm", 5, None)


def test_a_deeper_line_agrees_with_a_shallower_one():
    got = parse_file(f"4:memory:/docker/{A}\n3:cpu:/docker/{A}/docker/{B}\n0::/\n")

    assert (got.container_id, got.outer_container_id) == (B, A)


def test_lines_that_contradict_each_other_are_both_refused():
    got = parse_file(f"4:memory:/docker/{A}\n3:cpu:/docker/{B}\n")

    assert got.container_id is None
    assert dict(got.extra) == {"conflict": f"{A},{B}"}


def test_a_service_that_is_no_runtime_owns_what_is_below_it():
    forged = parse_path(f"/system.slice/jupyter-eve-singleuser.service/docker/{A}")

    assert forged.owner is Owner.UNIT
    assert forged.owner_path == "/system.slice/jupyter-eve-singleuser.service"


def test_the_owner_is_the_outermost_container():
    identity = parse_path(f"/docker/{A}/docker/{B}/docker/{C}")

    assert identity.owner is Owner.CONTAINER
    assert identity.owner_path == f"/docker/{A}"
    assert [layer.container_id for layer in identity.layers] == [A, B, C]
    assert identity.trust is Trust.NESTED


def test_a_kubepods_path_is_unverified_until_a_runtime_confirms_it():
    assert parse_path(f"/kubepods/pod{UID}/{A}").trust is Trust.UNVERIFIED


def test_a_sluid_of_other_digits_is_no_job():
    for sluid, job in (("s5K1KKYAYG5D00", "s5K1KKYAYG5D00"), ("s5K1KKYAYG5DUU", None)):
        assert parse_path(f"/system.slice/slurmstepd.scope/{sluid}").as_json()["slurm_sluid"] == job
