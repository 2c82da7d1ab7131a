"""What a runtime, scheduler or the host's user database knows about a cgroup.

Names come late and from elsewhere: they are plain data that travels between processes,
cut to a size that no tenant can inflate.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Final

LABELS_MAX: Final = 64
KEY_MAX: Final = 256
VALUE_MAX: Final = 1024
TEXT_MAX: Final = 512

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Names:
    """Names of one container, pod, job or user.

    ``confirmed``: the source knows this very cgroup as its own, not just the id in its
    name. ``pod_confirmed``: the source had the pod's name from the kubelet.
    ``complete``: no other source could add anything.
    """

    source: str
    runtime: str | None = None
    container_id: str | None = None
    name: str | None = None
    image: str | None = None
    labels: Labels = ()
    pod: str | None = None
    namespace: str | None = None
    pod_uid: str | None = None
    slurm_job: str | None = None
    slurm_account: str | None = None
    user: str | None = None
    confirmed: bool = False
    pod_confirmed: bool = False
    complete: bool = True

    def joined(self, other: "Names") -> "Names":
        """Both sources' names; one that confirmed the cgroup wins over one that knows the id."""
        first, second = (other, self) if other.confirmed and not self.confirmed else (self, other)
        same = (first.runtime, first.container_id) == (second.runtime, second.container_id)
        if first.confirmed and not second.confirmed and not same:
            # Another runtime's container may carry the same id: nothing is taken from it.
            return replace(first, complete=first.complete and second.complete)
        values = {x.name: getattr(first, x.name) or getattr(second, x.name) for x in fields(self)}
        values["labels"] = tuple(dict([*second.labels, *first.labels]).items())[:LABELS_MAX]
        values["complete"] = first.complete and second.complete
        return Names(**values)

    def label(self, key: str) -> str | None:
        """The value of one label."""
        for known, value in self.labels:
            if known == key:
                return value
        return None


def clean(value: object, limit: int = TEXT_MAX) -> str | None:
    """Text from outside, without control characters, cut to ``limit``; None if no text."""
    if not isinstance(value, str):
        return None
    if not value.isprintable():
        value = "".join(c if c.isprintable() else "?" for c in value[: limit * 2])
    return value[:limit] or None


def clean_labels(raw: object) -> Labels:
    """The first labels of a mapping, cleaned; its order decides which are kept."""
    if not isinstance(raw, Mapping):
        return ()
    return _bounded((clean(key, KEY_MAX), clean(value, VALUE_MAX)) for key, value in raw.items())


def _bounded(pairs: Iterable[tuple[str | None, str | None]]) -> Labels:
    labels: list[tuple[str, str]] = []
    for key, value in pairs:
        if len(labels) == LABELS_MAX:
            break
        if key:
            labels.append((key, value or ""))
    return tuple(labels)
