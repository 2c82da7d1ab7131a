"""CRI-O and podman, by the files of containers/storage that both keep.

``overlay-containers/<id>/userdata/config.json`` is the OCI configuration of a running
container, with CRI-O's annotations; ``containers.json`` has names and images, so that
podman's containers are known without its socket.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Final

from cotenant.identity.naming.names import Names, clean, clean_labels
from cotenant.identity.path.model import Identity, Owner
from cotenant.identity.runtimes.placement import oci_path_is
from cotenant.identity.runtimes.source import Absent, Source, at, read_bounded, read_json

RUN: Final = Path("/run/containers/storage")
LIBRARY: Final = Path("/var/lib/containers/storage")
_DRIVERS: Final = ("overlay", "vfs", "btrfs", "zfs")
_LISTS: Final = ("containers.json", "volatile-containers.json")
_LIST_MAX: Final = 8 << 20
_RUNTIMES: Final = frozenset({"cri-o", "podman", "unknown"})
_POD: Final = "io.kubernetes.pod."


class StorageSource(Source):
    """One containers/storage: its run directory and its library."""

    name = "containers-storage"

    def __init__(self, run: Path = RUN, library: Path = LIBRARY) -> None:
        super().__init__()
        self._run = run
        self._library = library
        self.where = str(run)

    def serves(self, identity: Identity) -> bool:
        """Containers of CRI-O, of podman, or of an unknown runtime."""
        if not identity.layers or identity.owner in (Owner.JOB, Owner.USER):
            return False
        layer = identity.layers[0]
        return layer.container_id is not None and layer.runtime in _RUNTIMES

    def ask(self, identity: Identity, path: str) -> Names | None:
        """The container's configuration, and its name from the list."""
        del path
        layer = identity.layers[0]
        container = layer.container_id or ""
        if "/" in container or container in ("", ".", ".."):
            return None
        if not self._run.is_dir() and not self._library.is_dir():
            raise Absent(f"no directory {self._run}")
        for driver in _DRIVERS:
            found = self._config(driver, container)
            if found is None:
                continue
            cgroups_path = at(found, "linux", "cgroupsPath")
            placed = isinstance(cgroups_path, str) and oci_path_is(cgroups_path, layer.path)
            raw = at(found, "annotations")
            notes = raw if isinstance(raw, dict) else {}
            # Podman writes some of CRI-O's annotations, and lets its users write the others.
            crio = _crio(notes) if layer.runtime != "podman" else None
            names = crio or self._podman(driver, notes, container)
            pod_uid = clean(notes.get(f"{_POD}uid"))
            confirmed_pod = names.runtime == "cri-o" and pod_uid is not None
            return replace(
                names,
                container_id=container,
                pod_uid=pod_uid,
                confirmed=placed,
                pod_confirmed=placed and confirmed_pod and layer.pod_uid in (None, pod_uid),
            )
        return None

    def _config(self, driver: str, container: str) -> object | None:
        below = Path(f"{driver}-containers") / container / "userdata" / "config.json"
        for root in (self._run, self._library):
            try:
                return read_json(root / below)
            except (FileNotFoundError, NotADirectoryError):
                continue
        return None

    def _podman(self, driver: str, notes: dict[str, object], container: str) -> Names:
        names = Names(self.name, runtime="podman", labels=clean_labels(notes))
        for file in _LISTS:
            try:
                data = read_bounded(self._library / f"{driver}-containers" / file, _LIST_MAX)
            except (FileNotFoundError, NotADirectoryError):
                continue
            for entry in json.loads(data):
                if at(entry, "id") == container:
                    return _listed(names, entry)
        return names


def _listed(names: Names, entry: object) -> Names:
    """With what ``containers.json`` says of it; its metadata is JSON in JSON."""
    known = at(entry, "names")
    metadata = at(entry, "metadata")
    try:
        inner = json.loads(metadata) if isinstance(metadata, str) else None
    except ValueError:
        inner = None
    first = known[0] if isinstance(known, list) and known else None
    name, image = clean(first or at(inner, "name")), clean(at(inner, "image-name"))
    return replace(names, name=name, image=image)


def _crio(notes: dict[str, object]) -> Names | None:
    """CRI-O's annotations; None if this is not its container."""
    if "io.kubernetes.cri-o.ContainerType" not in notes:
        return None
    try:
        labels = json.loads(str(notes.get("io.kubernetes.cri-o.Labels") or "{}"))
    except ValueError:
        labels = {}
    sandbox = notes.get("io.kubernetes.cri-o.ContainerType") == "sandbox"
    return Names(
        source="cri-o",
        runtime="cri-o",
        name="POD" if sandbox else clean(notes.get("io.kubernetes.container.name")),
        image=clean(notes.get("io.kubernetes.cri-o.ImageName")),
        labels=clean_labels(labels),
        pod=clean(notes.get(f"{_POD}name")),
        namespace=clean(notes.get(f"{_POD}namespace")),
    )
