"""Containerd: the bundles that it keeps below its state directory."""

from cotenant.identity import parse_path, tenancy
from cotenant.identity.runtimes import ContainerdSource
from tests.unit.identity.runtimes.samples import IMITATED, UID, A, B, bundle, cri, write

POD = parse_path(
    f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-{A}.scope"
)


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


def test_a_container_id_never_leads_out_of_the_state_directory(tmp_path):
    write(tmp_path / "config.json", {"linux": {"cgroupsPath": "/a/.."}})
    (tmp_path / "state" / "ns").mkdir(parents=True)

    assert ContainerdSource(tmp_path / "state").lookup(parse_path("/lxc/.."), "/lxc/..") is None
