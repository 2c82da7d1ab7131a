"""Docker and podman, over the HTTP they speak on their unix sockets.

While Docker starts a container, inspecting it waits until it has started; the list of
containers does not wait. So the list is asked first, and inspection only where the
container is not at Docker's usual place.
"""

import json
from pathlib import Path
from typing import Final
from urllib.parse import quote

from cotenant.identity.naming.names import Names, clean, clean_labels
from cotenant.identity.path.model import Identity, Owner
from cotenant.identity.runtimes.http import TIMEOUT_S, get, leading_members, unix_socket
from cotenant.identity.runtimes.placement import docker_path_is, process_is_in
from cotenant.identity.runtimes.source import Source, SourceError, at

DOCKER_SOCKET: Final = "/run/docker.sock"
PODMAN_SOCKET: Final = "/run/podman/podman.sock"


class DockerSource(Source):
    """A daemon that answers ``GET /containers/<id>/json``."""

    runtimes: tuple[str, ...] = ("docker", "ecs", "unknown")
    runtime = "docker"
    target = "/containers/{id}/json"

    def __init__(
        self,
        where: str,
        *,
        timeout_s: float = TIMEOUT_S,
        proc: Path = Path("/proc"),
    ) -> None:
        super().__init__()
        self.name = self.runtime
        self.where = where
        self._connect = unix_socket(where)
        self._timeout_s = timeout_s
        self._proc = proc

    def serves(self, identity: Identity) -> bool:
        """Containers of this runtime, and those whose runtime the path does not tell."""
        if not identity.layers or identity.owner in (Owner.JOB, Owner.USER):
            return False
        layer = identity.layers[0]
        return layer.container_id is not None and layer.runtime in self.runtimes

    def ask(self, identity: Identity, path: str) -> Names | None:
        """What the daemon knows of the container, if it has it."""
        del path
        layer = identity.layers[0]
        if layer.container_id is None:
            return None
        listed = self._listed(layer.container_id, layer.path)
        if listed is not None and listed.confirmed:
            return listed
        return self._inspected(layer.container_id, layer.path) or listed

    def _listed(self, container_id: str, path: str) -> Names | None:
        filters = quote(json.dumps({"id": [container_id]}))
        found = self._get(f"/containers/json?all=1&filters={filters}")
        for entry in found if isinstance(found, list) else [found]:
            if at(entry, "Id") == container_id:
                names = at(entry, "Names")
                first = names[0] if isinstance(names, list) and names else None
                placed = docker_path_is("", container_id, path)
                return self._named(
                    container_id, first, at(entry, "Image"), at(entry, "Labels"), placed
                )
        return None

    def _inspected(self, container_id: str, path: str) -> Names | None:
        found = self._get(self.target.format(id=container_id))
        if at(found, "Id") != container_id:
            return None
        return self._named(
            container_id,
            at(found, "Name"),
            self._image(found),
            at(found, "Config", "Labels"),
            self._placed(found, path, container_id),
        )

    def _get(self, target: str) -> object:
        answer = get(self._connect, target, timeout_s=self._timeout_s)
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise SourceError(f"{self.where} returned HTTP {answer.status}")
        # Labels without end come after the name: what came before them is kept.
        return json.loads(answer.body) if answer.whole else leading_members(answer.body)

    def _named(
        self, container_id: str, name: object, image: object, raw: object, placed: bool
    ) -> Names:
        text = clean(name)
        labels = clean_labels(raw)
        return Names(
            source=self.name,
            runtime=self.runtime,
            container_id=container_id,
            name=text.removeprefix("/") if text else None,
            image=clean(image),
            labels=labels,
            # Every user of the socket may set these labels: the kubelet confirms them.
            pod_uid=dict(labels).get("io.kubernetes.pod.uid"),
            confirmed=placed,
        )

    def _image(self, found: object) -> object:
        return at(found, "Config", "Image")

    def _placed(self, found: object, path: str, container_id: str) -> bool:
        pid = at(found, "State", "Pid")
        if isinstance(pid, int) and process_is_in(pid, path, self._proc):
            return True
        parent = at(found, "HostConfig", "CgroupParent")
        return docker_path_is(parent if isinstance(parent, str) else "", container_id, path)


class PodmanSource(DockerSource):
    """Podman's own API, which also tells the cgroup."""

    runtimes = ("podman", "unknown")
    runtime = "podman"
    target = "/v4.0.0/libpod/containers/{id}/json"

    def _listed(self, container_id: str, path: str) -> Names | None:
        return None  # Its inspection waits for nothing.

    def _image(self, found: object) -> object:
        return at(found, "ImageName") or at(found, "Config", "Image")

    def _placed(self, found: object, path: str, container_id: str) -> bool:
        cgroup = at(found, "State", "CgroupPath")
        if isinstance(cgroup, str) and f"{cgroup.rstrip('/')}/".startswith(f"{path}/"):
            return True
        pid = at(found, "State", "Pid")
        return isinstance(pid, int) and process_is_in(pid, path, self._proc)
