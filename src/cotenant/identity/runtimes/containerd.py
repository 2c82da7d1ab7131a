"""containerd, by the bundles in its state directory.

``<state>/<namespace>/<id>/config.json`` is the OCI configuration of each running
container. Its annotations carry what the kubelet said about the pod, and its
``cgroupsPath`` says which cgroup is meant, also for the free-form ids of ``ctr``.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cotenant.identity.naming.names import Names, clean, clean_labels
from cotenant.identity.path.model import Identity, Layer, Owner
from cotenant.identity.runtimes.placement import oci_path_is
from cotenant.identity.runtimes.source import Absent, Source, at, read_json

STATE: Final = Path("/run/containerd/io.containerd.runtime.v2.task")
DOCKER_STATE: Final = Path("/run/docker/containerd/daemon/io.containerd.runtime.v2.task")
K3S_STATE: Final = Path("/run/k3s/containerd/io.containerd.runtime.v2.task")
_NAMESPACES_MAX: Final = 64
_CONTAINERS_MAX: Final = 4096
_CRI: Final = "io.kubernetes.cri."
_RUNTIMES: Final = frozenset({"containerd", "unknown", "docker", "ecs", "kata"})


class ContainerdSource(Source):
    """One containerd's state directory."""

    name = "containerd"

    def __init__(self, state: Path = STATE) -> None:
        super().__init__()
        self._directory = state
        self.where = str(state)
        # A container's cgroup never changes, so each configuration is read once.
        self._cgroups: dict[tuple[str, str], str] = {}

    def serves(self, identity: Identity) -> bool:
        """Containers it may have made, and cgroups that nothing else explains."""
        if identity.owner is Owner.PATH:
            return True
        if not identity.layers or identity.owner in (Owner.JOB, Owner.USER):
            return False
        return identity.layers[0].runtime in _RUNTIMES

    def ask(self, identity: Identity, path: str) -> Names | None:
        """By id, then by the cgroup that a container asked for."""
        layer = identity.layers[0] if identity.layers else None
        cgroup = layer.path if layer else path
        if layer and layer.container_id:
            for namespace in self._namespaces():
                if names := self._read(namespace, layer.container_id, cgroup, layer):
                    return names
        return self._by_cgroup(cgroup, layer)

    def _namespaces(self) -> list[str]:
        return self._entries(self._directory, _NAMESPACES_MAX)

    def _entries(self, directory: Path, limit: int) -> list[str]:
        try:
            with os.scandir(directory) as entries:
                return [entry.name for entry, _ in zip(entries, range(limit), strict=False)]
        except (FileNotFoundError, NotADirectoryError) as error:
            if directory == self._directory:
                raise Absent(f"no directory {directory}") from error
            return []

    def _containers(self) -> Iterator[tuple[str, str]]:
        for namespace in self._namespaces():
            for container in self._entries(self._directory / namespace, _CONTAINERS_MAX):
                yield namespace, container

    def _by_cgroup(self, cgroup: str, layer: Layer | None) -> Names | None:
        present = set(self._containers())
        for key in list(self._cgroups):
            if key not in present:
                self._cgroups.pop(key, None)
        for key in present:
            if key not in self._cgroups:
                found = self._config(*key)
                text = at(found, "linux", "cgroupsPath")
                if found is not None:
                    self._cgroups[key] = text if isinstance(text, str) else ""
            if oci_path_is(self._cgroups.get(key, ""), cgroup):
                return self._read(*key, cgroup, layer)
        return None

    def _config(self, namespace: str, container: str) -> object | None:
        try:
            return read_json(self._directory / namespace / container / "config.json")
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _read(
        self, namespace: str, container: str, cgroup: str, layer: Layer | None
    ) -> Names | None:
        # A container id is one component: it cannot lead out of the directory.
        if "/" in container or container in ("", ".", ".."):
            return None
        found = self._config(namespace, container)
        if found is None:
            return None
        raw = at(found, "annotations")
        notes = raw if isinstance(raw, dict) else {}
        cgroups_path = at(found, "linux", "cgroupsPath")
        placed = isinstance(cgroups_path, str) and oci_path_is(cgroups_path, cgroup)
        pod_uid = clean(notes.get(f"{_CRI}sandbox-uid"))
        docker = namespace == "moby"
        return Names(
            source=self.name,
            runtime="docker" if docker else "containerd",
            container_id=container,
            name=_name(notes, container, docker),
            image=clean(notes.get(f"{_CRI}image-name")),
            labels=clean_labels(notes),
            pod=clean(notes.get(f"{_CRI}sandbox-name")),
            namespace=clean(notes.get(f"{_CRI}sandbox-namespace")),
            pod_uid=pod_uid,
            confirmed=placed,
            pod_confirmed=placed and _is_the_pod(namespace, pod_uid, layer),
        )


def _is_the_pod(namespace: str, pod_uid: str | None, layer: Layer | None) -> bool:
    """Only the CRI writes in ``k8s.io``, and it had the pod from the kubelet."""
    if namespace != "k8s.io" or pod_uid is None:
        return False
    return layer is None or layer.pod_uid in (None, pod_uid)


def _name(notes: dict[str, object], container: str, docker: bool) -> str | None:
    if notes.get(f"{_CRI}container-type") == "sandbox":
        return "POD"
    name = clean(notes.get(f"{_CRI}container-name")) or clean(notes.get("nerdctl/name"))
    # Docker keeps its names to itself; ctr has none beside the id.
    return name or (None if docker else clean(container))
