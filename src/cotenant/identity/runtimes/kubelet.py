"""The kubelet's own list of pods: names, labels and owners of what runs on this node.

Its read-only port, its authenticated port with a bearer token, or a file with the same
JSON (for nodes where neither may be used).
"""

import json
import os
import ssl
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from cotenant.identity.naming.names import Labels, Names, clean, clean_labels
from cotenant.identity.path.model import Identity, Owner
from cotenant.identity.runtimes.http import TIMEOUT_S, Connect, get, tcp
from cotenant.identity.runtimes.listener import is_loopback, listeners
from cotenant.identity.runtimes.source import Absent, Source, SourceError, at, read_bounded

READ_ONLY: Final = "http://127.0.0.1:10255/pods"
TOKEN: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
_PODS_MAX: Final = 16 << 20
_FRESH_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class _Pod:
    name: str | None
    namespace: str | None
    labels: Labels
    containers: dict[str, tuple[str | None, str | None]]  # id -> name, image


class KubeletSource(Source):
    """The kubelet of this node; ``file`` is read in its place if given."""

    name = "kubelet"
    adds = True

    def __init__(
        self,
        url: str = READ_ONLY,
        *,
        token: Path = TOKEN,
        authority: Path | None = None,
        file: Path | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        super().__init__()
        self.where = str(file or url)
        self._url = urlsplit(url)
        self._host = self._url.hostname or "127.0.0.1"
        self._port = self._url.port or (10250 if self._url.scheme == "https" else 10255)
        self._token = token
        self._authority = authority
        self._file = file
        self._timeout_s = timeout_s
        self._pods: dict[str, _Pod] = {}
        self._read_at = float("-inf")
        self._reading = threading.Lock()

    def serves(self, identity: Identity) -> bool:
        """Whatever claims to be a pod at the top of the host's tree."""
        if not identity.layers or identity.owner is not Owner.CONTAINER:
            return False
        return identity.layers[0].pod_uid is not None

    def ask(self, identity: Identity, path: str) -> Names | None:
        """The pod of the uid in the path, confirmed if it has this container."""
        del path
        layer = identity.layers[0]
        pod = self._find(layer.pod_uid or "")
        if pod is None:
            return None
        known = pod.containers.get(layer.container_id or "")
        if known is None and layer.container_id is not None:
            # A status follows the start by a while; until then it may be an imitation.
            return Names(self.name, complete=False)
        return Names(
            source=self.name,
            container_id=layer.container_id,
            name=known[0] if known else None,
            image=known[1] if known else None,
            labels=pod.labels,
            pod=pod.name,
            namespace=pod.namespace,
            pod_uid=layer.pod_uid,
            confirmed=True,
            pod_confirmed=True,
        )

    def _find(self, uid: str) -> _Pod | None:
        with self._reading:
            stale = time.monotonic() - self._read_at > _FRESH_S
            if stale or uid not in self._pods:
                self._pods = _index(self._fetch())
                self._read_at = time.monotonic()
            return self._pods.get(uid)

    def _fetch(self) -> object:
        if self._file is not None:
            try:
                return json.loads(read_bounded(self._file, _PODS_MAX))
            except FileNotFoundError as error:
                raise Absent(f"no file {self._file}") from error
        if self._url.scheme != "https" or self._authority is None:
            self._check_listener()
        headers = {}
        if self._url.scheme == "https" and self._token.is_file():
            headers["Authorization"] = f"Bearer {self._token.read_text('ascii').strip()}"
        try:
            answer = get(
                self._connect(),
                self._url.path or "/pods",
                headers=headers,
                timeout_s=self._timeout_s,
                limit=_PODS_MAX,
            )
        except ConnectionRefusedError as error:
            raise Absent(f"nothing listens at {self.where}") from error
        if answer.status != 200:
            raise SourceError(f"{self.where} returned HTTP {answer.status}")
        if not answer.whole:
            raise SourceError(f"{self.where} returned more than {_PODS_MAX} bytes")
        return json.loads(answer.body)

    def _check_listener(self) -> None:
        """If the kubelet does not listen, any user may, with a certificate of their own."""
        uids = listeners(self._host, self._port)
        if not uids and is_loopback(self._host):
            raise Absent(f"nothing listens at {self.where}")
        if strangers := uids - {0, os.geteuid()}:
            raise Absent(f"user {min(strangers)} listens at {self.where}, not root: not believed")

    def _connect(self) -> Connect:
        if self._url.scheme != "https":
            return tcp(self._host, self._port)
        context = ssl.create_default_context(cafile=self._authority)
        if self._authority is None:
            # The kubelet signs its own certificate unless told otherwise; it is this host.
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return tcp(self._host, self._port, context)


def _index(answer: object) -> dict[str, _Pod]:
    """Pods by uid; a static pod's cgroup has the hash of its manifest instead."""
    items = at(answer, "items")
    pods: dict[str, _Pod] = {}
    for item in items if isinstance(items, list) else []:
        uid = clean(at(item, "metadata", "uid"))
        if uid is None:
            continue
        pod = _pod(item)
        pods[uid] = pod
        notes = at(item, "metadata", "annotations")
        if alias := clean(at(notes, "kubernetes.io/config.hash")):
            pods.setdefault(alias, pod)
    return pods


def _pod(item: object) -> _Pod:
    labels = list(clean_labels(at(item, "metadata", "labels")))
    owners = at(item, "metadata", "ownerReferences")
    if isinstance(owners, list) and owners:
        kind, name = clean(at(owners[0], "kind")), clean(at(owners[0], "name"))
        if kind and name:
            labels.append(("owner", f"{kind}/{name}"))
    containers: dict[str, tuple[str | None, str | None]] = {}
    for group in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        statuses = at(item, "status", group)
        for status in statuses if isinstance(statuses, list) else []:
            container_id = clean(at(status, "containerID"))
            if container_id:
                key = container_id.rpartition("/")[2]
                containers[key] = clean(at(status, "name")), clean(at(status, "image"))
    name, namespace = clean(at(item, "metadata", "name")), clean(at(item, "metadata", "namespace"))
    return _Pod(name, namespace, tuple(labels), containers)
