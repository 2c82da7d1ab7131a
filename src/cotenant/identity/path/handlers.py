"""What each kind of path component means for the walk.

Each function answers whether a runtime's directories may still begin below it.
"""

import re
from collections.abc import Callable
from typing import Final

from cotenant.identity.path import patterns as words
from cotenant.identity.path.cursor import Scan
from cotenant.identity.path.units import unescape

Match = re.Match[str]
_NAMESPACES: Final = frozenset({"k8s.io", "default"})


def _pod_slice(scan: Scan, match: Match) -> bool:
    scan.pod(match["pod_slice_uid"], match["pod_qos"] or "guaranteed")
    return True


def _pod_dir(scan: Scan, match: Match) -> bool:
    scan.pod(match["pod_dir_uid"], scan.qos_level or ("guaranteed" if scan.kube else None))
    return True


def _triple(scan: Scan, match: Match) -> bool:
    prefix, name = match["triple_prefix"], match["triple_id"]
    kind, inner = words.classify(match["triple_slice"])
    if kind == "pod_slice" and inner:
        _pod_slice(scan, inner)
    if prefix in words.MONITOR_PREFIXES:
        return _monitor(scan, words.MONITOR_PREFIXES[prefix])
    scan.container(words.PREFIXES.get(prefix, "unknown"), name)
    return True


def _monitor(scan: Scan, runtime: str) -> bool:
    # Inside a container it is that container's business, and a name it could choose.
    if not scan.layers:
        scan.monitor, scan.runtime = True, runtime
    return False


def _conmon(scan: Scan, match: Match) -> bool:
    return _monitor(scan, "cri-o" if match["conmon_of"] == "crio" else "podman")


def _lxc_monitor(scan: Scan, _match: Match) -> bool:
    return _monitor(scan, "lxc") if scan.anchored else False


def _id(scan: Scan) -> bool:
    component = scan.part(0)
    stem = component.removesuffix(".scope")
    prefix, container_id = stem[:-65], stem[-64:]
    if not prefix:
        scan.container(_runtime_of_bare_id(scan), container_id)
        return True
    runtime = words.PREFIXES.get(prefix)
    if runtime is None:
        # In a pod's slice any scope with an id is a container, whoever made it.
        if not scan.pod_uid or stem == component:
            return False
        runtime = "unknown"
    outer = scan.layers[-1] if scan.layers else None
    if prefix == "libpod-payload" and outer and outer.container_id == container_id:
        return True
    scan.container(runtime, container_id)
    return True


def _runtime_of_bare_id(scan: Scan) -> str:
    parent = scan.part(-1)
    if scan.pod_uid:
        return "unknown"
    if parent in words.PARENTS and (parent not in _NAMESPACES or scan.index == 1):
        return words.PARENTS[parent]
    # Before it had a directory of its own, Docker used the root.
    return "docker" if scan.index == 0 and not scan.relative else "unknown"


def _buildkit_scope(scan: Scan, match: Match) -> bool:
    scan.container("buildkit", match["buildkit_scope_id"])
    return True


def _runc_scope(scan: Scan, match: Match) -> bool:
    runtime = "unknown" if match["runc_prefix"] in ("runc", "crun") else "containerd"
    scan.container(runtime, unescape(match["runc_id"]))
    return True


def _apptainer_scope(scan: Scan, match: Match) -> bool:
    if match["apptainer_name"]:
        scan.container("apptainer", unescape(match["apptainer_name"]))
    else:
        _apptainer_pid(scan, match["apptainer_pid"])
    return True


def _apptainer_pid(scan: Scan, pid: str) -> None:
    """A scope named by a process id: no container that could be looked up."""
    if not scan.layers:
        scan.runtime = "apptainer"
        scan.note("apptainer_pid", pid)


def _lxc_payload(scan: Scan, match: Match) -> bool:
    scan.container("lxc", match["lxc_name"])
    return True


def _nspawn(scan: Scan, match: Match) -> bool:
    return _machine(scan, "systemd-nspawn", match["nspawn_name"])


def _machine_scope(scan: Scan, match: Match) -> bool:
    if not (scan.part(-1).startswith("machine") and scan.part(-1).endswith(".slice")):
        return True
    name = unescape(match["machine_name"])
    if name.startswith("qemu-"):
        return _machine(scan, "libvirt-qemu", name)
    return _machine(scan, "lxc" if name.startswith("lxc-") else "systemd-nspawn", name)


def _machine_dir(scan: Scan, match: Match) -> bool:
    if scan.part(-1) not in ("machine", "machine.slice"):
        return False
    kind = "libvirt-qemu" if match["machine_dir_kind"] == "qemu" else "lxc"
    return _machine(scan, kind, match["machine_dir_name"])


def _machine(scan: Scan, runtime: str, name: str) -> bool:
    if scan.part(1) == "supervisor" and not scan.layers:
        scan.monitor, scan.runtime = True, runtime
    scan.container(runtime, unescape(name))
    return True


def _podman_pod(scan: Scan, match: Match) -> bool:
    scan.note("podman_pod_id", match["podman_pod_id"])
    return True


def _ecs_slice(scan: Scan, match: Match) -> bool:
    scan.note("ecs_task_id", match["ecs_slice_task"])
    return True


def _word(scan: Scan) -> bool:
    meaning = _WORDS.get(scan.part(0))
    return meaning(scan) if meaning else True


def _kubepods(scan: Scan) -> bool:
    scan.kube = True
    return True


def _qos(scan: Scan) -> bool:
    # Seen from another cgroup namespace, the level above may be cut off.
    if scan.kube or scan.relative:
        scan.qos_level = scan.part(0)
    return True


def _lxc(scan: Scan) -> bool:
    name = scan.part(1)
    if not scan.anchored or not name:
        return False
    scan.index += 1
    scan.container("lxc", name)
    return True


def _garden(scan: Scan) -> bool:
    step = 2 if scan.part(1) in ("good", "bad") else 1
    if not words.GARDEN_ID(scan.part(step)):
        return True
    scan.index += step
    scan.container("garden", scan.part(0))
    return True


def _ecs(scan: Scan) -> bool:
    """``ecs[/cluster]/task/container``; on Fargate the container is ``task-number``."""
    if not scan.anchored:
        return False
    for step in (1, 2, 3):
        name, above = scan.part(step), scan.part(step - 1)
        fargate = words.FARGATE_ID(name)
        if not fargate and not words.CONTAINER_ID(name):
            continue
        if step > 2:
            scan.note("ecs_cluster", scan.part(step - 2))
        if step > 1 and words.ECS_TASK(above):
            scan.note("ecs_task_id", above)
        elif fargate:
            scan.note("ecs_task_id", fargate[1])
        scan.index += step
        scan.container("ecs", name)
        return True
    return True


def _buildkit(scan: Scan) -> bool:
    if words.BUILDKIT_ID(scan.part(1)):
        scan.index += 1
        scan.container("buildkit", scan.part(0))
    return True


def _libpod_parent(scan: Scan) -> bool:
    if words.CONTAINER_ID(scan.part(1)):
        scan.note("podman_pod_id", scan.part(1))
        scan.index += 1
    if scan.part(1) == "conmon":
        return _monitor(scan, "podman")
    return True


def _singularity(scan: Scan) -> bool:
    if scan.part(1).isdigit():
        _apptainer_pid(scan, scan.part(1))
    return True


def _kata_overhead(scan: Scan) -> bool:
    if scan.anchored and scan.part(1) and not scan.layers:
        scan.note("kata_sandbox", scan.part(1))
        return _monitor(scan, "kata")
    return True


def _libvirt(scan: Scan) -> bool:
    if scan.anchored and scan.part(1) in ("qemu", "lxc") and scan.part(2):
        runtime = "libvirt-qemu" if scan.part(1) == "qemu" else "lxc"
        scan.index += 2
        scan.container(runtime, scan.part(0))
    return True


def _mesos(scan: Scan) -> bool:
    if words.UUID(scan.part(1)):
        scan.index += 1
        scan.container("unknown", scan.part(0))
    return True


_WORDS: Final[dict[str, Callable[[Scan], bool]]] = {
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

# Kinds whose match holds what they say, and kinds that need none.
MATCHED: Final[dict[str, Callable[[Scan, Match], bool]]] = {
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
PLAIN: Final[dict[str, Callable[[Scan], bool]]] = {"id": _id, "word": _word}
MEANT: Final = frozenset({*MATCHED, *PLAIN})
