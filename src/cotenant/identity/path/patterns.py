"""Patterns of the path components that container runtimes make.

One row per kind of component. :func:`classify` tells a component's kind; ``handlers.py``
has a handler for each.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

CID: Final = "[0-9a-f]{64}"
_UID: Final = (
    "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{8}(?:_[0-9a-f]{4}){3}_[0-9a-f]{12}"
    "|[0-9a-f]{32}"
)
_FREE: Final = r"[A-Za-z0-9][A-Za-z0-9_.:\\-]*"

CONTAINER_ID: Final = re.compile(CID).fullmatch
_CONMON: Final = re.compile("(?:crio|libpod)-conmon-").match

# Slices that name something below them.
SLICES: Final = {
    "pod_slice": r"(?:.+?-)??kubepods(?:-(?P<pod_qos>besteffort|burstable))?-pod"
    rf"(?P<pod_slice_uid>{_UID})\.slice",
    "podman_pod": rf"(?:.+?-)??libpod_pod_(?P<podman_pod_id>{CID})\.slice",
    "ecs_slice": r"ecstasks-(?P<ecs_slice_task>[0-9a-f-]+)\.slice",
}

COMPONENTS: Final = {
    # A Kubernetes pod's directory.
    "pod_dir": rf"pod(?P<pod_dir_uid>{_UID})",
    # Supervisors that carry the container's id and are not the container.
    "conmon": rf"(?P<conmon_of>crio|libpod)-conmon-{CID}(?:\.scope)?",
    "lxc_monitor": r"lxc\.monitor(?:\..+)?",
    # Containers whose component holds a name; `id` is the row for those that hold an id.
    "buildkit_scope": r"docker-(?P<buildkit_scope_id>[0-9a-z]{25})\.scope",
    "runc_scope": r"(?P<runc_prefix>runc|crun|containerd|nerdctl|ctr)-"
    rf"(?P<runc_id>{_FREE})\.scope",
    "apptainer_scope": r"(?:apptainer|singularity)-"
    rf"(?:oci-(?P<apptainer_name>{_FREE})|(?P<apptainer_pid>[0-9]+))\.scope",
    "lxc_payload": r"lxc\.payload\.(?P<lxc_name>.+)",
    "nspawn": r"systemd-nspawn@(?P<nspawn_name>.+)\.service",
    "machine_scope": r"machine-(?P<machine_name>.+)\.scope",
}

# A directory of libvirt without systemd; the literal triple that a cgroupfs runtime makes
# of a systemd path.
MARKED: Final = {
    "machine_dir": r"(?P<machine_dir_name>.+)\.libvirt-(?P<machine_dir_kind>qemu|lxc)",
    "triple": r"(?P<triple_slice>[^:]+\.slice):(?P<triple_prefix>[a-z_.-]+):"
    r"(?P<triple_id>[A-Za-z0-9_.-]+)",
}

# Directories whose children have handlers.
WORDS: Final = frozenset(
    [
        "kubepods",
        "besteffort",
        "burstable",
        "docker",
        "lxc",
        "lxc.payload",
        "garden",
        "ecs",
        "buildkit",
        "libpod_parent",
        "singularity",
        "kata_overhead",
        "libvirt",
        "mesos",
        "podruntime",
        "actions_job",
    ]
)
# What runtimes put between a container's cgroup and its contents.
TRANSPARENT: Final = frozenset(
    ["container", "init", "payload", "ns", "syscont-cgroup-root", ".lxc"]
)
_UNIT_SUFFIXES: Final = tuple(
    [
        ".service",
        ".scope",
        ".mount",
        ".socket",
        ".swap",
        ".target",
        ".timer",
        ".path",
        ".automount",
        ".device",
    ]
)


def _one_of(rows: dict[str, str]) -> Callable[[str], re.Match[str] | None]:
    return re.compile("|".join(f"(?P<{k}>{v})" for k, v in rows.items()), re.DOTALL).fullmatch


_SLICE: Final = _one_of(SLICES)
_COMPONENT: Final = _one_of(COMPONENTS)
_MARKED: Final = _one_of(MARKED)

Kind = tuple[str | None, re.Match[str] | None]
_ID: Final[Kind] = ("id", None)
_WORD: Final[Kind] = ("word", None)
_TRANSPARENT: Final[Kind] = ("transparent", None)
_PLAIN_SLICE: Final[Kind] = ("slice", None)
_UNIT: Final[Kind] = ("unit", None)
_UNKNOWN: Final[Kind] = (None, None)


@lru_cache(maxsize=4096)
def classify(component: str) -> Kind:
    """A component's kind and, if a pattern told it, the match; (None, None) if unknown."""
    if component in WORDS:
        return _WORD
    if component.endswith(".slice"):
        if "pod" in component or component.startswith("ecs"):
            match = _SLICE(component)
            if match:
                return match.lastgroup, match
        return _PLAIN_SLICE
    if ":" in component or ".libvirt-" in component:
        match = _MARKED(component)
        if match:
            return match.lastgroup, match
    stem = component.removesuffix(".scope")
    if len(stem) >= 64 and CONTAINER_ID(stem[-64:]) and not _CONMON(stem):
        return _ID if len(stem) == 64 or stem[-65] in "-_" else _UNKNOWN
    match = _COMPONENT(component)
    if match:
        return match.lastgroup, match
    if component in TRANSPARENT:
        return _TRANSPARENT
    return _UNIT if component.endswith(_UNIT_SUFFIXES) else _UNKNOWN


# Prefix of an id in a scope, directory or triple -> runtime.
PREFIXES: Final = {
    "docker": "docker",
    "cri-containerd": "containerd",
    "containerd": "containerd",
    "nerdctl": "containerd",
    "crio": "cri-o",
    "libpod": "podman",
    "libpod-payload": "podman",
    "buildkit": "buildkit",
    "kata": "kata",
    "kata_overhead": "kata",
    "runc": "unknown",
    "crun": "unknown",
}
MONITOR_PREFIXES: Final = {
    "crio-conmon": "cri-o",
    "libpod-conmon": "podman",
    "kata_overhead": "kata",
}
# Directory directly above a bare id -> runtime.
PARENTS: Final = {
    "docker": "docker",
    "actions_job": "docker",
    "k8s.io": "containerd",
    "default": "containerd",
    "libpod_parent": "podman",
    "buildkit": "buildkit",
    "ecs": "ecs",
}

# containerd's own rule for namespaces and container ids.
CONTAINERD_NAME: Final = re.compile(r"[A-Za-z0-9]+(?:[._-]+[A-Za-z0-9]+)*").fullmatch
BUILDKIT_ID: Final = re.compile(r"[0-9a-z]{25}").fullmatch
GARDEN_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){4}").fullmatch
UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch
ECS_TASK: Final = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch
FARGATE_ID: Final = re.compile(r"([0-9a-f]{32})-[0-9]{1,20}").fullmatch

# Top-level directories of known owners; elsewhere `/<namespace>/<id>` is containerd's.
NOT_NAMESPACES: Final = frozenset(
    [
        "docker",
        "garden",
        "kubepods",
        "kubelet",
        "kubernetes",
        "slurm",
        "ecs",
        "lxc",
        "nomad",
        "machine",
        "libvirt",
        "user",
        "system",
        "htcondor",
        "condor",
        "singularity",
        "apptainer",
        "kata_overhead",
        "vc",
        "libpod_parent",
        "buildkit",
        "podruntime",
        "mesos",
        "yarn",
        "hadoop-yarn",
        "sge",
        "lsf",
        "torque",
        "pbs",
        "pbs_jobs",
        "pbspro",
        "init",
        "wsl-user",
        "actions_job",
        "sysdefault",
        "cgroup",
    ]
)

# Services whose children are named by the runtime itself, not by a delegated workload.
RUNTIME_SERVICE: Final = re.compile(
    r"(?:snap\.)?(?:docker|dockerd|containerd|crio|cri-o|podman|kubelet|k3s|k0s|rke2|microk8s|garden"
    r"|buildkit|buildkitd|nerdctl|balena|ecs|nomad|lxd|lxc|incus|isulad)"
    r"(?:[.@-][A-Za-z0-9_.@-]*)?\.service"
).fullmatch

CONTROLLERS: Final = frozenset(
    [
        "blkio",
        "cpu",
        "cpuacct",
        "cpuset",
        "devices",
        "freezer",
        "hugetlb",
        "memory",
        "misc",
        "net_cls",
        "net_prio",
        "perf_event",
        "pids",
        "rdma",
        "unified",
        "systemd",
        "name=systemd",
        "elogind",
    ]
)
MOUNT: Final = re.compile(
    r"(?:/proc/(?:\d+|self)/root|/host|/hostfs|/rootfs)?/sys/fs/cgroup(?=/|$)"
)
WSL: Final = re.compile(r"distro-[0-9]+").fullmatch
