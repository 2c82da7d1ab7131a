"""Docker and podman by their sockets: right when they are well, harmless when they are not."""

import time

import pytest

from cotenant.identity import parse_path, tenancy
from cotenant.identity.naming.names import LABELS_MAX
from cotenant.identity.naming.resolver import Resolver
from cotenant.identity.runtimes import ContainerdSource, DockerSource, PodmanSource
from tests.unit.identity.runtimes import fake_runtimes as fakes
from tests.unit.identity.runtimes.samples import IMITATED, UID, A, bundle, write

DOCKER = parse_path(f"/docker/{A}")


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
        (fakes.answer({}, status=500), "returned HTTP 500"),
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
