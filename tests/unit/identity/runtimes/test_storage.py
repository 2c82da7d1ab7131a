"""CRI-O and podman without a socket: what they keep in containers/storage."""

from cotenant.identity import parse_path
from cotenant.identity.runtimes import StorageSource
from tests.unit.identity.runtimes.samples import UID, A, write


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
