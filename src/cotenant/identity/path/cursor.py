"""Where the parser is in a cgroup path, and what it found on the way."""

from cotenant.identity.path.model import Layer


class Cursor:
    """Moves down the components of one path and collects its containers.

    ``anchored`` is true where a runtime that starts from scratch would make its
    directories: at the top of the host's or a container's tree, below slices and units.
    """

    __slots__ = (
        "anchored",
        "claimed",
        "extra",
        "index",
        "kube",
        "layers",
        "monitor",
        "parts",
        "pod_index",
        "pod_qos",
        "pod_uid",
        "prefix",
        "qos_level",
        "relative",
        "runtime",
    )

    def __init__(self, parts: list[str], prefix: str, relative: bool) -> None:
        self.parts = parts
        self.prefix = prefix
        self.relative = relative
        self.index = 0
        self.anchored = True
        self.layers: list[Layer] = []
        self.extra: list[tuple[str, str]] = []
        self.runtime: str | None = None  # Of something that is no container.
        self.monitor = False
        self.claimed = False  # A name that anything could have, such as /a/b.
        self._leave_pod()

    def _leave_pod(self) -> None:
        self.kube = False
        self.qos_level: str | None = None
        self.pod_uid: str | None = None
        self.pod_qos: str | None = None
        self.pod_index = 0

    def path_to(self, end: int) -> str:
        """The path of the first ``end`` components."""
        if self.layers and self.layers[-1].at + 1 == end:
            return self.layers[-1].path
        return f"{self.prefix}/{'/'.join(self.parts[:end])}"

    def part(self, offset: int) -> str:
        """The component ``offset`` away from this one, or nothing."""
        index = self.index + offset
        return self.parts[index] if 0 <= index < len(self.parts) else ""

    def note(self, key: str, value: str) -> None:
        """Keep a detail; the outermost one of a kind stays."""
        if all(key != known for known, _ in self.extra):
            self.extra.append((key, value))

    def pod(self, uid: str, qos: str | None) -> None:
        """A pod's cgroup begins; one inside another pod's, without a container, is a child."""
        if self.pod_uid is None:
            self.pod_uid = uid.replace("_", "-")
            self.pod_qos = qos
            self.pod_index = self.index

    def container(self, runtime: str, container_id: str) -> None:
        """The current component is a container's own cgroup."""
        self.layers.append(
            Layer(
                runtime,
                container_id,
                self.pod_uid,
                self.pod_qos,
                self.path_to(self.index + 1),
                self.index,
            )
        )
        self._leave_pod()
        self.anchored = True

    def close_pod(self) -> None:
        """At the end of the path: a pod without a container is a layer too."""
        if self.pod_uid is not None:
            at = self.pod_index
            runtime = self.runtime or "unknown"
            self.layers.append(
                Layer(runtime, None, self.pod_uid, self.pod_qos, self.path_to(at + 1), at)
            )
