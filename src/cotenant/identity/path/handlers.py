"""One handler per kind of path component: it tells the cursor what the component names.

A handler returns whether a runtime's directories may still begin below the component.
"""

import re
from collections.abc import Callable
from typing import Final

from cotenant.identity.path import patterns
from cotenant.identity.path.cursor import Cursor
from cotenant.identity.path.units import unescape

Match = re.Match[str]
_NAMESPACES: Final = frozenset({"k8s.io", "default"})


def _pod_slice(cursor: Cursor, match: Match) -> bool:
    cursor.pod(match["pod_slice_uid"], match["pod_qos"] or "guaranteed")
    return True


def _pod_dir(cursor: Cursor, match: Match) -> bool:
    cursor.pod(match["pod_dir_uid"], cursor.qos_level or ("guaranteed" if cursor.kube else None))
    return True


def _triple(cursor: Cursor, match: Match) -> bool:
    prefix, name = match["triple_prefix"], match["triple_id"]
    kind, inner = patterns.classify(match["triple_slice"])
    if kind == "pod_slice" and inner:
        _pod_slice(cursor, inner)
    if prefix in patterns.MONITOR_PREFIXES:
        return _monitor(cursor, patterns.MONITOR_PREFIXES[prefix])
    cursor.container(patterns.PREFIXES.get(prefix, "unknown"), name)
    return True


def _monitor(cursor: Cursor, runtime: str) -> bool:
    # Inside a container it is that container's business, and a name it could choose.
    if not cursor.layers:
        cursor.monitor, cursor.runtime = True, runtime
    return False


def _conmon(cursor: Cursor, match: Match) -> bool:
    return _monitor(cursor, "cri-o" if match["conmon_of"] == "crio" else "podman")


def _lxc_monitor(cursor: Cursor, _match: Match) -> bool:
    return _monitor(cursor, "lxc") if cursor.anchored else False


def _id(cursor: Cursor) -> bool:
    component = cursor.part(0)
    stem = component.removesuffix(".scope")
    prefix, container_id = stem[:-65], stem[-64:]
    if not prefix:
        cursor.container(_runtime_of_bare_id(cursor), container_id)
        return True
    runtime = patterns.PREFIXES.get(prefix)
    if runtime is None:
        # In a pod's slice any scope with an id is a container, of any runtime.
        if not cursor.pod_uid or stem == component:
            return False
        runtime = "unknown"
    outer = cursor.layers[-1] if cursor.layers else None
    if prefix == "libpod-payload" and outer and outer.container_id == container_id:
        return True
    cursor.container(runtime, container_id)
    return True


def _runtime_of_bare_id(cursor: Cursor) -> str:
    parent = cursor.part(-1)
    if cursor.pod_uid:
        return "unknown"
    if parent in patterns.PARENTS and (parent not in _NAMESPACES or cursor.index == 1):
        return patterns.PARENTS[parent]
    # Before it had a directory of its own, Docker used the root.
    return "docker" if cursor.index == 0 and not cursor.relative else "unknown"


def _buildkit_scope(cursor: Cursor, match: Match) -> bool:
    cursor.container("buildkit", match["buildkit_scope_id"])
    return True


def _runc_scope(cursor: Cursor, match: Match) -> bool:
    runtime = "unknown" if match["runc_prefix"] in ("runc", "crun") else "containerd"
    cursor.container(runtime, unescape(match["runc_id"]))
    return True


def _apptainer_scope(cursor: Cursor, match: Match) -> bool:
    if match["apptainer_name"]:
        cursor.container("apptainer", unescape(match["apptainer_name"]))
    else:
        _apptainer_pid(cursor, match["apptainer_pid"])
    return True


def _apptainer_pid(cursor: Cursor, pid: str) -> None:
    """A scope named by a process id: no container that could be looked up."""
    if not cursor.layers:
        cursor.runtime = "apptainer"
        cursor.note("apptainer_pid", pid)


def _lxc_payload(cursor: Cursor, match: Match) -> bool:
    cursor.container("lxc", match["lxc_name"])
    return True


def _nspawn(cursor: Cursor, match: Match) -> bool:
    return _machine(cursor, "systemd-nspawn", match["nspawn_name"])


def _machine_scope(cursor: Cursor, match: Match) -> bool:
    if not (cursor.part(-1).startswith("machine") and cursor.part(-1).endswith(".slice")):
        return True
    name = unescape(match["machine_name"])
    if name.startswith("qemu-"):
        return _machine(cursor, "libvirt-qemu", name)
    return _machine(cursor, "lxc" if name.startswith("lxc-") else "systemd-nspawn", name)


def _machine_dir(cursor: Cursor, match: Match) -> bool:
    if cursor.part(-1) not in ("machine", "machine.slice"):
        return False
    kind = "libvirt-qemu" if match["machine_dir_kind"] == "qemu" else "lxc"
    return _machine(cursor, kind, match["machine_dir_name"])


def _machine(cursor: Cursor, runtime: str, name: str) -> bool:
    if cursor.part(1) == "supervisor" and not cursor.layers:
        cursor.monitor, cursor.runtime = True, runtime
    cursor.container(runtime, unescape(name))
    return True


def _podman_pod(cursor: Cursor, match: Match) -> bool:
    cursor.note("podman_pod_id", match["podman_pod_id"])
    return True


def _ecs_slice(cursor: Cursor, match: Match) -> bool:
    cursor.note("ecs_task_id", match["ecs_slice_task"])
    return True


def _word(cursor: Cursor) -> bool:
    handler = _BY_WORD.get(cursor.part(0))
    return handler(cursor) if handler else True


def _kubepods(cursor: Cursor) -> bool:
    cursor.kube = True
    return True


def _qos(cursor: Cursor) -> bool:
    # Seen from another cgroup namespace, the level above may be cut off.
    if cursor.kube or cursor.relative:
        cursor.qos_level = cursor.part(0)
    return True


def _lxc(cursor: Cursor) -> bool:
    name = cursor.part(1)
    if not cursor.anchored or not name:
        return False
    cursor.index += 1
    cursor.container("lxc", name)
    return True


def _garden(cursor: Cursor) -> bool:
    step = 2 if cursor.part(1) in ("good", "bad") else 1
    if not patterns.GARDEN_ID(cursor.part(step)):
        return True
    cursor.index += step
    cursor.container("garden", cursor.part(0))
    return True


def _ecs(cursor: Cursor) -> bool:
    """``ecs[/cluster]/task/container``; on Fargate the container is ``task-number``."""
    if not cursor.anchored:
        return False
    for step in (1, 2, 3):
        name, above = cursor.part(step), cursor.part(step - 1)
        fargate = patterns.FARGATE_ID(name)
        if not fargate and not patterns.CONTAINER_ID(name):
            continue
        if step > 2:
            cursor.note("ecs_cluster", cursor.part(step - 2))
        if step > 1 and patterns.ECS_TASK(above):
            cursor.note("ecs_task_id", above)
        elif fargate:
            cursor.note("ecs_task_id", fargate[1])
        cursor.index += step
        cursor.container("ecs", name)
        return True
    return True


def _buildkit(cursor: Cursor) -> bool:
    if patterns.BUILDKIT_ID(cursor.part(1)):
        cursor.index += 1
        cursor.container("buildkit", cursor.part(0))
    return True


def _libpod_parent(cursor: Cursor) -> bool:
    if patterns.CONTAINER_ID(cursor.part(1)):
        cursor.note("podman_pod_id", cursor.part(1))
        cursor.index += 1
    if cursor.part(1) == "conmon":
        return _monitor(cursor, "podman")
    return True


def _singularity(cursor: Cursor) -> bool:
    if cursor.part(1).isdigit():
        _apptainer_pid(cursor, cursor.part(1))
    return True


def _kata_overhead(cursor: Cursor) -> bool:
    if cursor.anchored and cursor.part(1) and not cursor.layers:
        cursor.note("kata_sandbox", cursor.part(1))
        return _monitor(cursor, "kata")
    return True


def _libvirt(cursor: Cursor) -> bool:
    if cursor.anchored and cursor.part(1) in ("qemu", "lxc") and cursor.part(2):
        runtime = "libvirt-qemu" if cursor.part(1) == "qemu" else "lxc"
        cursor.index += 2
        cursor.container(runtime, cursor.part(0))
    return True


def _mesos(cursor: Cursor) -> bool:
    if patterns.UUID(cursor.part(1)):
        cursor.index += 1
        cursor.container("unknown", cursor.part(0))
    return True


_BY_WORD: Final[dict[str, Callable[[Cursor], bool]]] = {
    "kubepods": _kubepods,
    "besteffort": _qos,
    "burstable": _qos,
    "lxc": _lxc,
    "lxc.payload": _lxc,
    "garden": _garden,
    "ecs": _ecs,
    "buildkit": _buildkit,
    "libpod_parent": _libpod_parent,
    "singularity": _singularity,
    "kata_overhead": _kata_overhead,
    "libvirt": _libvirt,
    "mesos": _mesos,
}

# By kind of component: handlers that read the match, and handlers that need none.
WITH_MATCH: Final[dict[str, Callable[[Cursor, Match], bool]]] = {
    "pod_slice": _pod_slice,
    "pod_dir": _pod_dir,
    "triple": _triple,
    "conmon": _conmon,
    "lxc_monitor": _lxc_monitor,
    "buildkit_scope": _buildkit_scope,
    "runc_scope": _runc_scope,
    "apptainer_scope": _apptainer_scope,
    "lxc_payload": _lxc_payload,
    "nspawn": _nspawn,
    "machine_scope": _machine_scope,
    "machine_dir": _machine_dir,
    "podman_pod": _podman_pod,
    "ecs_slice": _ecs_slice,
}
WITHOUT_MATCH: Final[dict[str, Callable[[Cursor], bool]]] = {"id": _id, "word": _word}
HANDLED: Final = frozenset({*WITH_MATCH, *WITHOUT_MATCH})
