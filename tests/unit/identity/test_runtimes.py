"""Sources of names: right when the runtime is well, harmless when it is not."""

import json
import time

import fakes
import pytest

from cotenant.identity import Resolver, parse_path, tenancy
from cotenant.identity.naming.names import LABELS_MAX
from cotenant.identity.runtimes import (
    ContainerdSource,
    DockerSource,
    KubeletSource,
    PodmanSource,
    SlurmSource,
    StorageSource,
    UserSource,
)

A, B = "a" * 64, "b" * 64
UID = "98005c3b-b650-4efe-8b91-2164d784397f"
DOCKER = parse_path(f"/docker/{A}")
IMITATED = parse_path(f"/kubepods/burstable/pod{UID}/{A}")
POD = parse_path(
    f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-{A}.scope"
)
SLUID = "s5K1KKYAYG5D00"


def inspection(**changes):
    found = {
        "Id": A,
        "State": {"Pid": 0},
        "Name": "/trainer",
        "HostConfig": {"CgroupParent": ""},
        "Config": {"Image": "train:1", "Labels": {"team": "b"}},
    }
    return found | changes


def docker(server, **options):
    return DockerSource(str(server.path), **options)


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))


def test_docker_tells_name_image_and_labels(serve):
    server = serve(fakes.daemon(inspection()))
    names = docker(server).lookup(DOCKER, f"/docker/{A}")

    assert (names.name, names.image, names.labels) == ("trainer", "train:1", (("team", "b"),))
    assert names.confirmed
    assert [target.partition("?")[0] for target in server.targets] == ["/containers/json"]


def test_docker_is_believed_only_about_the_cgroup_it_made(serve, tmp_path):
    forged = parse_path(f"/elsewhere/{A}")
    write(tmp_path / "7" / "cgroup", f"4:memory:/docker/{A}\n0::/docker/{A}\n")
    server = serve(fakes.daemon(inspection(State={"Pid": 7})))

    assert docker(server, proc=tmp_path).lookup(DOCKER, "").confirmed
    assert len(server.targets) == 1
    assert not docker(server, proc=tmp_path).lookup(forged, "").confirmed


def test_docker_confirms_a_place_of_the_users_choice(serve, tmp_path):
    path = f"/batch/{A}"
    server = serve(fakes.daemon(inspection(HostConfig={"CgroupParent": "/batch"})))
    names = docker(server, proc=tmp_path).lookup(parse_path(path), path)

    assert (names.name, names.confirmed) == ("trainer", True)


def test_dockers_name_is_joined_with_the_place_that_its_containerd_knows(serve, tmp_path):
    path = f"/batch/{A}"
    bundle(tmp_path, "moby", A, path)
    server = serve(fakes.daemon(inspection()))
    names = Resolver([ContainerdSource(tmp_path), docker(server)]).lookup(parse_path(path), path)

    assert (names.name, names.confirmed, names.complete) == ("trainer", True, True)


def test_an_imitated_pod_stays_unverified_and_carries_its_own_name(serve):
    parent = f"/kubepods/burstable/pod{UID}"
    server = serve(fakes.daemon(inspection(HostConfig={"CgroupParent": parent})))
    names = Resolver([docker(server)]).lookup(IMITATED, "")
    whose = tenancy(IMITATED, names)

    assert (whose.tenant, whose.trust) == ("trainer", "unverified")


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (fakes.hang, "no answer within"),
        (fakes.drip, "no answer within"),
        (fakes.raw(b"\x00\xff garbage\r\n\r\n"), "not HTTP"),
        (fakes.raw(b""), "not HTTP"),
        (fakes.answer(b"{not json"), "JSONDecodeError"),
        (fakes.answer(b"[" * 100_000), "RecursionError"),
        (fakes.answer({}, status=500), "answered 500"),
    ],
)
def test_a_broken_runtime_costs_a_name_and_nothing_else(serve, reply, error):
    source = docker(serve(reply), timeout_s=0.2)
    began = time.monotonic()

    assert source.lookup(DOCKER, "") is None
    assert source.lookup(DOCKER, "") is None  # Left alone: it is not asked again at once.
    assert time.monotonic() - began < 10
    assert source.status().state == "failing"
    assert source.status().lookups == 1
    assert error in source.status().last_error


def test_a_missing_socket_is_absent_and_not_a_failure(tmp_path):
    source = DockerSource(str(tmp_path / "none.sock"))

    assert source.lookup(DOCKER, "") is None
    assert (source.status().state, source.status().failures) == ("absent", 0)


def test_a_refused_socket_is_reported(serve):
    server = serve(fakes.answer({}))
    server.close()
    source = docker(server)

    assert source.lookup(DOCKER, "") is None
    assert "ConnectionRefusedError" in source.status().last_error


def test_an_unknown_container_is_no_failure(serve):
    source = docker(serve(fakes.answer({"message": "no such container"}, status=404)))

    assert source.lookup(DOCKER, "") is None
    assert source.status().state == "ready"


def test_ten_megabytes_of_labels_leave_the_name(serve):
    labels = {f"k{number}": "x" * 1000 for number in range(10_007)}
    server = serve(fakes.daemon(inspection(Config={"Image": "i", "Labels": labels})))
    names = docker(server, timeout_s=20).lookup(DOCKER, "")

    assert (names.name, names.labels, names.confirmed) == ("trainer", (), True)


def test_labels_are_cut_and_cleaned(serve):
    labels = {f"k{number:04}": "a\nb\x1b[31m" + "x" * 5000 for number in range(101)}
    server = serve(fakes.daemon(inspection(Config={"Image": "i", "Labels": labels})))
    names = docker(server, timeout_s=20).lookup(DOCKER, "")

    assert len(names.labels) == LABELS_MAX
    assert all(value.isprintable() and len(value) == 1024 for _, value in names.labels)


def test_podman_tells_its_cgroup(serve):
    found = {"Id": A, "Name": "web", "ImageName": "web:2", "Config": {"Labels": None}}
    path = f"/machine.slice/libpod-{A}.scope"
    server = serve(fakes.answer(found | {"State": {"CgroupPath": f"{path}/container"}}))
    names = PodmanSource(str(server.path)).lookup(parse_path(path), path)

    assert (names.name, names.image, names.confirmed) == ("web", "web:2", True)


def bundle(root, namespace, container, cgroups_path, **annotations):
    config = {"linux": {"cgroupsPath": cgroups_path}, "annotations": annotations}
    write(root / namespace / container / "config.json", config)


def cri(**more):
    notes = {"sandbox-name": "trainer-0", "sandbox-namespace": "team-b", "sandbox-uid": UID}
    notes |= {"container-name": "main", "container-type": "container", "image-name": "t:1"}
    return {f"io.kubernetes.cri.{key}": value for key, value in (notes | more).items()}


def test_containerd_confirms_a_pod_by_its_annotations(tmp_path):
    slice_ = f"kubepods-pod{UID.replace('-', '_')}.slice"
    bundle(tmp_path, "k8s.io", A, f"{slice_}:cri-containerd:{A}", **cri())
    names = ContainerdSource(tmp_path).lookup(POD, "")

    assert (names.namespace, names.pod, names.name) == ("team-b", "trainer-0", "main")
    assert tenancy(POD, names).tenant == "team-b/trainer-0"
    assert tenancy(POD, names).trust == "host"


def test_annotations_of_another_pod_confirm_nothing(tmp_path):
    path = f"/kubepods/burstable/pod{UID}/{A}"
    bundle(tmp_path, "k8s.io", A, path, **cri(**{"sandbox-uid": "other"}))
    names = ContainerdSource(tmp_path).lookup(IMITATED, path)

    assert not names.pod_confirmed


def test_annotations_outside_the_kubelets_namespace_confirm_no_pod(tmp_path):
    path = f"/kubepods/burstable/pod{UID}/{A}"
    bundle(tmp_path, "default", A, path, **cri())

    assert not ContainerdSource(tmp_path).lookup(IMITATED, path).pod_confirmed


def test_a_free_form_container_is_found_by_its_cgroup(tmp_path):
    bundle(tmp_path, "default", "train", "/custom/place")
    identity = parse_path("/custom/place")
    source = ContainerdSource(tmp_path)
    names = source.lookup(identity, "/custom/place")

    assert (names.container_id, names.name, names.confirmed) == ("train", "train", True)
    assert source.lookup(parse_path("/custom/other"), "/custom/other") is None


def test_a_state_directory_that_vanishes_is_absent(tmp_path):
    source = ContainerdSource(tmp_path / "gone")

    assert source.lookup(POD, "") is None
    assert source.status().state == "absent"


def test_one_unusable_bundle_does_not_silence_the_source(tmp_path):
    other = parse_path(f"/default/{B}")
    write(tmp_path / "default" / A / "config.json", "{" + " " * (1 << 20))
    bundle(tmp_path, "default", B, f"/default/{B}")
    source = ContainerdSource(tmp_path)

    assert source.lookup(parse_path(f"/default/{A}"), "") is None
    assert source.lookup(other, "").confirmed


def test_crio_tells_pod_and_labels(tmp_path):
    path = f"/kubepods/burstable/pod{UID}/crio-{A}"
    notes = {"io.kubernetes.pod.name": "web-1", "io.kubernetes.pod.namespace": "shop"}
    notes |= {"io.kubernetes.pod.uid": UID, "io.kubernetes.container.name": "nginx"}
    notes |= {"io.kubernetes.cri-o.ContainerType": "container"}
    notes |= {"io.kubernetes.cri-o.Labels": '{"app": "web"}'}
    config = {"annotations": notes, "linux": {"cgroupsPath": path}}
    write(tmp_path / "overlay-containers" / A / "userdata" / "config.json", config)
    names = StorageSource(tmp_path, tmp_path).lookup(parse_path(path), path)

    assert (names.runtime, names.pod, names.name) == ("cri-o", "web-1", "nginx")
    assert (names.labels, names.pod_confirmed) == ((("app", "web"),), True)


def test_podman_is_known_without_its_socket(tmp_path):
    path = f"/libpod_parent/libpod-{A}"
    notes = {"io.container.manager": "libpod", "io.kubernetes.cri-o.TTY": "false"}
    config = {"annotations": notes, "linux": {"cgroupsPath": path}}
    write(tmp_path / "run" / "vfs-containers" / A / "userdata" / "config.json", config)
    listed = [{"id": A, "names": ["cache"], "metadata": '{"image-name": "redis:7"}'}]
    write(tmp_path / "lib" / "vfs-containers" / "containers.json", listed)
    names = StorageSource(tmp_path / "run", tmp_path / "lib").lookup(parse_path(path), path)

    assert (names.name, names.image, names.confirmed) == ("cache", "redis:7", True)
    assert names.runtime == "podman"


def pods(container):
    status = {"name": "main", "containerID": f"containerd://{container}", "image": "t:1"}
    owner = {"kind": "Job", "name": "train"}
    meta = {"name": "trainer-0", "namespace": "team-b", "uid": UID, "labels": {"app": "t"}}
    meta |= {"ownerReferences": [owner]}
    return {"items": [{"metadata": meta, "status": {"containerStatuses": [status]}}]}


def test_the_kubelet_confirms_a_container_it_runs(tmp_path):
    write(tmp_path / "pods.json", pods(A))
    names = KubeletSource(file=tmp_path / "pods.json").lookup(IMITATED, "")

    assert names.labels == (("app", "t"), ("owner", "Job/train"))
    assert tenancy(IMITATED, names).tenant == "team-b/trainer-0"


def test_the_kubelet_says_nothing_about_a_container_it_does_not_run(tmp_path):
    write(tmp_path / "pods.json", pods(B))
    names = KubeletSource(file=tmp_path / "pods.json").lookup(IMITATED, "")

    assert (names.pod, names.labels, names.complete) == (None, (), False)


def test_a_kubelet_that_does_not_listen_is_absent():
    source = KubeletSource("http://127.0.0.1:1/pods")

    assert source.lookup(IMITATED, "") is None
    assert source.status().state == "absent"


def test_labels_of_the_kubelet_are_added_to_what_containerd_knows(tmp_path):
    path = f"/kubepods/burstable/pod{UID}/{A}"
    bundle(tmp_path / "ctrd", "k8s.io", A, path, **cri())
    write(tmp_path / "pods.json", pods(A))
    resolver = Resolver(
        [ContainerdSource(tmp_path / "ctrd"), KubeletSource(file=tmp_path / "pods.json")]
    )
    names = resolver.lookup(IMITATED, path)

    assert names.complete
    assert names.label("app") == "t"


def slurm_host(tmp_path, job):
    step = tmp_path / "cg" / "system.slice" / "slurmstepd.scope" / job / "step_0"
    write(step / "slurm" / "cgroup.procs", "41\n")
    write(step / "user" / "task_0" / "cgroup.procs", "43\n")
    write(tmp_path / "proc" / "41" / "cmdline", "slurmstepd: [3385.0]\0")
    environ = f"SLURM_JOB_SLUID={SLUID}\0SLURM_JOB_ID=1\0SLURM_JOB_PARTITION=gpu\0"
    write(tmp_path / "proc" / "43" / "environ", environ)
    write(tmp_path / "passwd", "root:x:0:0::/:/bin/sh\nalice:x:1000:1000::/:/bin/sh\n")
    users = UserSource(tmp_path / "passwd", getent=None)
    return SlurmSource((tmp_path / "cg",), users, proc=tmp_path / "proc")


def test_a_sluid_becomes_a_job_by_slurmstepds_word_not_the_tasks(tmp_path):
    path = f"/system.slice/slurmstepd.scope/{SLUID}/step_0/user/task_0"
    identity = parse_path(path)
    names = slurm_host(tmp_path, SLUID).lookup(identity, path)

    assert names.slurm_job == "3385"
    assert tenancy(identity, names).tenant == "slurm/3385"
    assert dict(names.labels) == {"asserted.slurm.job": "1", "asserted.slurm.partition": "gpu"}


def test_the_user_of_a_slice_is_named(tmp_path):
    identity = parse_path("/user.slice/user-1000.slice/session-4.scope")
    write(tmp_path / "passwd", "alice:x:1000:1000::/:/bin/sh\n")
    names = UserSource(tmp_path / "passwd", getent=None).lookup(identity, "")

    assert tenancy(identity, names).tenant == "user/alice"


def test_a_container_id_never_leads_out_of_the_state_directory(tmp_path):
    write(tmp_path / "config.json", {"linux": {"cgroupsPath": "/a/.."}})
    (tmp_path / "state" / "ns").mkdir(parents=True)

    assert ContainerdSource(tmp_path / "state").lookup(parse_path("/lxc/.."), "/lxc/..") is None
