"""Parses cgroup paths: a path in, an :class:`Identity` out. Pure text, no I/O.

A path is read once, from the root down:

1. the host's systemd unit and user (``units.py``) and batch job (``jobs.py``);
2. each container on the way, a :class:`Layer`, recognised by ``patterns.py`` and read
   by ``handlers.py``;
3. the outermost of these that the host named becomes the owner. Whatever stands below
   the owner is a label: it never changes the owner, whatever it is called.
"""

from functools import lru_cache
from typing import Final

from cotenant.identity.path import patterns
from cotenant.identity.path.cursor import Cursor
from cotenant.identity.path.handlers import HANDLED, WITH_MATCH, WITHOUT_MATCH
from cotenant.identity.path.jobs import find_job
from cotenant.identity.path.model import Identity, Job, Layer, Owner, Trust
from cotenant.identity.path.patterns import classify
from cotenant.identity.path.units import Units, find_units, unit_at

_DELETED: Final = " (deleted)"
_NOTHING: Final = Identity()
_ELSEWHERE: Final = Identity(relative=True, trust=Trust.UNVERIFIED, owner=Owner.PATH)
_PLAIN: Final = (None, "transparent")  # At the top, what is transparent below is a name.
_TALOS_ROOTS: Final = frozenset({"podruntime", "system"})

# Looking a member up in its class costs four times as much as a name.
_USER, _JOB, _UNIT, _CONTAINER, _PATH = (
    Owner.USER,
    Owner.JOB,
    Owner.UNIT,
    Owner.CONTAINER,
    Owner.PATH,
)
_BY_HOST, _BY_USER, _NESTED, _UNVERIFIED = (
    Trust.HOST,
    Trust.USER,
    Trust.NESTED,
    Trust.UNVERIFIED,
)


def parse_path(path: str, *, mounted: bool = False) -> Identity:
    """Read a cgroup path as the kernel reports it.

    With ``mounted`` it may be a path below ``/sys/fs/cgroup``, with or without that
    prefix and the directory of a v1 controller.
    """
    path = path.removesuffix(_DELETED)
    return _parse(_below_mount(path) if mounted else path)


# A container has the same path in each of a host's hierarchies.
@lru_cache(maxsize=4096)
def _parse(path: str) -> Identity:
    parts = path.strip("/").split("/")
    if "" in parts:
        parts = [part for part in parts if part]
        if not parts:
            return _NOTHING
    relative = parts[0] == ".."
    if relative:
        parts = [part for part in parts if part != ".."]
        if not parts:
            return _ELSEWHERE
    # WSL runs each distribution's systemd below its own directory.
    if parts[0] == "wsl-user" and len(parts) > 3 and patterns.WSL(parts[1]):
        return _read(parts[3:], "/" + "/".join(parts[:3]), relative)
    return _read(parts, "", relative)


def _below_mount(path: str) -> str:
    match = patterns.MOUNT.match(path)
    if match:
        path = path[match.end() :] or "/"
    first, _, rest = path.lstrip("/").partition("/")
    if all(name in patterns.CONTROLLERS for name in first.split(",")):
        return "/" + rest
    return path


def _read(parts: list[str], prefix: str, relative: bool) -> Identity:
    units = find_units(parts)
    job = None
    if units.user_uid is None and not relative:
        job = find_job(parts, units.slices)
    cursor = Cursor(parts, prefix, relative)
    if not relative:
        _free_form(cursor)
    _containers(cursor)
    cursor.close_pod()
    if not relative and not cursor.layers and not cursor.runtime:
        _talos(cursor)
    return _identity(cursor, units, job)


def _containers(cursor: Cursor) -> None:
    """Walk down the components and collect the containers among them."""
    parts, count, index = cursor.parts, len(cursor.parts), cursor.index
    while index < count:
        kind, match = classify(parts[index])
        if kind is None:
            cursor.anchored = False
        elif kind in HANDLED:
            cursor.index = index
            if match is None:
                anchored = WITHOUT_MATCH[kind](cursor)
            else:
                anchored = WITH_MATCH[kind](cursor, match)
            if not anchored:
                cursor.anchored = False
            index = cursor.index
        index += 1
    cursor.index = count


def _free_form(cursor: Cursor) -> None:
    """``/<namespace>/<id>``: how ``ctr`` and nerdctl place a container by default."""
    parts = cursor.parts
    if len(parts) < 2 or parts[0] in patterns.NOT_NAMESPACES or parts[0].startswith("slurm_"):
        return
    namespace, name = parts[0], parts[1]
    if classify(namespace)[0] not in _PLAIN or not patterns.CONTAINERD_NAME(namespace):
        return
    if patterns.CONTAINER_ID(name):
        if patterns.PARENTS.get(namespace) == "containerd":
            cursor.note("containerd_namespace", namespace)
        return
    if classify(name)[0] not in _PLAIN or not patterns.CONTAINERD_NAME(name):
        return
    cursor.note("containerd_namespace", namespace)
    cursor.index = 1
    cursor.container("containerd", name)
    cursor.claimed = True
    cursor.index = 2


def _talos(cursor: Cursor) -> None:
    """Talos keeps its services in two plain directories."""
    if len(cursor.parts) >= 2 and cursor.parts[0] in _TALOS_ROOTS:
        cursor.runtime = "talos"
        cursor.note("talos_service", cursor.parts[1])


def _identity(cursor: Cursor, units: Units, job: Job | None) -> Identity:
    layers = tuple(cursor.layers)
    owner, owner_end = _owner(cursor, units, job)
    inner, outer, pod = _innermost(layers)
    extra = tuple(cursor.extra) + (job.extra if job else ())
    if inner and inner is layers[-1] and (inner_unit := _inner_unit(cursor)):
        extra += (("inner_unit", inner_unit),)
    return Identity(
        _runtime(cursor, units, job),
        inner.container_id if inner and not cursor.monitor else None,
        outer.container_id if outer else None,
        pod.pod_uid if pod else None,
        pod.qos if pod else None,
        units.unit,
        units.user_unit,
        units.user_uid,
        job,
        _trust(cursor, units, job),
        cursor.monitor or (job is not None and job.monitor),
        cursor.relative,
        owner,
        cursor.path_to(owner_end),
        layers,
        extra,
        cursor.claimed,
    )


def _innermost(layers: tuple[Layer, ...]) -> tuple[Layer | None, Layer | None, Layer | None]:
    """The innermost container, the outermost where there are several, the innermost pod."""
    inner = outer = pod = None
    for layer in layers:
        if layer.container_id:
            outer = outer or inner
            inner = layer
        if layer.pod_uid:
            pod = layer
    return inner, outer, pod


def _runtime(cursor: Cursor, units: Units, job: Job | None) -> str:
    if cursor.monitor and cursor.runtime:
        return cursor.runtime
    if cursor.layers:
        return cursor.layers[-1].runtime
    if job:
        return job.runtime
    if cursor.runtime:
        return cursor.runtime
    return "systemd" if units.unit or units.slices else "none"


def _owner(cursor: Cursor, units: Units, job: Job | None) -> tuple[Owner, int]:
    """What the host named outermost, and how many components name it."""
    if units.user_uid is not None:
        return _USER, units.user_end
    if job:
        return _JOB, job.end
    outer = cursor.layers[0] if cursor.layers else None
    if units.unit and not (
        outer and (units.slices >= outer.at or patterns.RUNTIME_SERVICE(units.unit))
    ):
        return _UNIT, units.slices + 1
    if outer:
        return _CONTAINER, outer.at + 1
    return _PATH, len(cursor.parts)


def _trust(cursor: Cursor, units: Units, job: Job | None) -> Trust:
    below_manager = units.manager_end and len(cursor.parts) > units.manager_end
    if below_manager or (units.user_uid is not None and cursor.layers):
        return _BY_USER
    if len(cursor.layers) > 1 or (cursor.layers and job):
        return _NESTED
    if cursor.relative or cursor.claimed:
        return _UNVERIFIED
    if cursor.layers and (cursor.layers[0].pod_uid or cursor.layers[0].runtime == "unknown"):
        return _UNVERIFIED
    return _BY_HOST


def _inner_unit(cursor: Cursor) -> str | None:
    """The unit that an init system inside the innermost container runs."""
    start = cursor.layers[-1].at + 1
    parts = cursor.parts
    while start < len(parts) and parts[start] in patterns.TRANSPARENT:
        start += 1
    return unit_at(parts, start) if start < len(parts) else None
