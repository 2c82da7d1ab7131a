"""The grammar of cgroup paths: a path in, an :class:`Identity` out. Pure text, no I/O.

A path is read once, from the root down:

1. the host's systemd unit and user (``units.py``) and batch job (``jobs.py``);
2. each container on the way, a :class:`Layer`, in the words of ``patterns.py``;
3. the outermost of these that the host named becomes the owner. Whatever stands below
   the owner is a label: it never changes the owner, whatever it is called.
"""

from functools import lru_cache
from typing import Final

from cotenant.identity.path import patterns as words
from cotenant.identity.path.cursor import Scan
from cotenant.identity.path.handlers import MATCHED, MEANT, PLAIN
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
    if parts[0] == "wsl-user" and len(parts) > 3 and words.WSL(parts[1]):
        return _read(parts[3:], "/" + "/".join(parts[:3]), relative)
    return _read(parts, "", relative)


def _below_mount(path: str) -> str:
    match = words.MOUNT.match(path)
    if match:
        path = path[match.end() :] or "/"
    first, _, rest = path.lstrip("/").partition("/")
    if all(name in words.CONTROLLERS for name in first.split(",")):
        return "/" + rest
    return path


def _read(parts: list[str], prefix: str, relative: bool) -> Identity:
    units = find_units(parts)
    job = None
    if units.user_uid is None and not relative:
        job = find_job(parts, units.slices)
    scan = Scan(parts, prefix, relative)
    if not relative:
        _free_form(scan)
    _containers(scan)
    scan.close_pod()
    if not relative and not scan.layers and not scan.runtime:
        _talos(scan)
    return _identity(scan, units, job)


def _containers(scan: Scan) -> None:
    """Walk down the components and collect the containers among them."""
    parts, count, index = scan.parts, len(scan.parts), scan.index
    while index < count:
        kind, match = classify(parts[index])
        if kind is None:
            scan.anchored = False
        elif kind in MEANT:
            scan.index = index
            if not (PLAIN[kind](scan) if match is None else MATCHED[kind](scan, match)):
                scan.anchored = False
            index = scan.index
        index += 1
    scan.index = count


def _free_form(scan: Scan) -> None:
    """``/<namespace>/<id>``: how ``ctr`` and nerdctl place a container by default."""
    parts = scan.parts
    if len(parts) < 2 or parts[0] in words.NOT_NAMESPACES or parts[0].startswith("slurm_"):
        return
    namespace, name = parts[0], parts[1]
    if classify(namespace)[0] not in _PLAIN or not words.CONTAINERD_NAME(namespace):
        return
    if words.CONTAINER_ID(name):
        if words.PARENTS.get(namespace) == "containerd":
            scan.note("containerd_namespace", namespace)
        return
    if classify(name)[0] not in _PLAIN or not words.CONTAINERD_NAME(name):
        return
    scan.note("containerd_namespace", namespace)
    scan.index = 1
    scan.container("containerd", name)
    scan.claimed = True
    scan.index = 2


def _talos(scan: Scan) -> None:
    """Talos keeps its services in two plain directories."""
    if len(scan.parts) >= 2 and scan.parts[0] in _TALOS_ROOTS:
        scan.runtime = "talos"
        scan.note("talos_service", scan.parts[1])


def _identity(scan: Scan, units: Units, job: Job | None) -> Identity:
    layers = tuple(scan.layers)
    owner, owner_end = _owner(scan, units, job)
    inner, outer, pod = _innermost(layers)
    extra = tuple(scan.extra) + (job.extra if job else ())
    if inner and inner is layers[-1] and (inner_unit := _inner_unit(scan)):
        extra += (("inner_unit", inner_unit),)
    return Identity(
        _runtime(scan, units, job),
        inner.container_id if inner and not scan.monitor else None,
        outer.container_id if outer else None,
        pod.pod_uid if pod else None,
        pod.qos if pod else None,
        units.unit,
        units.user_unit,
        units.user_uid,
        job,
        _trust(scan, units, job),
        scan.monitor or (job is not None and job.monitor),
        scan.relative,
        owner,
        scan.path_to(owner_end),
        layers,
        extra,
        scan.claimed,
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


def _runtime(scan: Scan, units: Units, job: Job | None) -> str:
    if scan.monitor and scan.runtime:
        return scan.runtime
    if scan.layers:
        return scan.layers[-1].runtime
    if job:
        return job.runtime
    if scan.runtime:
        return scan.runtime
    return "systemd" if units.unit or units.slices else "none"


def _owner(scan: Scan, units: Units, job: Job | None) -> tuple[Owner, int]:
    """What the host named outermost, and how many components name it."""
    if units.user_uid is not None:
        return _USER, units.user_end
    if job:
        return _JOB, job.end
    outer = scan.layers[0] if scan.layers else None
    if units.unit and not (
        outer and (units.slices >= outer.at or words.RUNTIME_SERVICE(units.unit))
    ):
        return _UNIT, units.slices + 1
    if outer:
        return _CONTAINER, outer.at + 1
    return _PATH, len(scan.parts)


def _trust(scan: Scan, units: Units, job: Job | None) -> Trust:
    below_manager = units.manager_end and len(scan.parts) > units.manager_end
    if below_manager or (units.user_uid is not None and scan.layers):
        return _BY_USER
    if len(scan.layers) > 1 or (scan.layers and job):
        return _NESTED
    if scan.relative or scan.claimed:
        return _UNVERIFIED
    if scan.layers and (scan.layers[0].pod_uid or scan.layers[0].runtime == "unknown"):
        return _UNVERIFIED
    return _BY_HOST


def _inner_unit(scan: Scan) -> str | None:
    """The unit that an init system inside the innermost container runs."""
    start = scan.layers[-1].at + 1
    parts = scan.parts
    while start < len(parts) and parts[start] in words.TRANSPARENT:
        start += 1
    return unit_at(parts, start) if start < len(parts) else None
