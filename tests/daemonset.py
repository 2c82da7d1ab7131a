"""The DaemonSet as it is written, and what it asks a container runtime for."""

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
DAEMONSET = ROOT / "deploy" / "kubernetes" / "daemonset.yaml"


def pod() -> dict[str, Any]:
    """The pod that runs on each node."""
    (found,) = [
        document
        for document in yaml.safe_load_all(DAEMONSET.read_text())
        if document["kind"] == "DaemonSet"
    ]
    spec: dict[str, Any] = found["spec"]["template"]["spec"]
    return spec


def container(name: str = "record") -> dict[str, Any]:
    """The container that records, or the one that serves the page."""
    (found,) = [one for one in pod()["containers"] if one["name"] == name]
    one: dict[str, Any] = found
    return one


def capabilities() -> set[str]:
    """What the recorder adds to nothing."""
    about = container()["securityContext"]["capabilities"]
    assert about["drop"] == ["ALL"]
    return set(about["add"])


def mounts(name: str = "record") -> dict[str, tuple[str | None, bool]]:
    """By the place inside: the host's path, or None for memory, and whether it may be written."""
    volumes = {volume["name"]: volume for volume in pod()["volumes"]}
    found = {}
    for mount in container(name)["volumeMounts"]:
        host = volumes[mount["name"]].get("hostPath")
        found[mount["mountPath"]] = (host and host["path"], not mount.get("readOnly", False))
    return found


def docker_options(store: Path, name: str = "record") -> list[str]:
    """The same for ``docker run``, but for where the store lies."""
    context = container(name)["securityContext"]
    assert context["privileged"] is False
    added = context["capabilities"].get("add", ())
    options = ["--cap-drop=ALL", *(f"--cap-add={capability}" for capability in sorted(added))]
    if context["seccompProfile"] == {"type": "Unconfined"}:
        options += ["--security-opt=seccomp=unconfined", "--security-opt=apparmor=unconfined"]
    options += ["--security-opt=no-new-privileges"] * (not context["allowPrivilegeEscalation"])
    options += ["--read-only"] * context["readOnlyRootFilesystem"]
    options += [f"--user={context['runAsUser']}:{context['runAsGroup']}"]
    options += ["--pid=host"] * pod()["hostPID"]
    for inside, (outside, writable) in mounts(name).items():
        if outside is None:
            options += ["--tmpfs", inside]
            continue
        if inside == "/var/lib/cotenant":
            outside = str(store)
        if not Path(outside).exists():
            continue  # Of another runtime; a kubelet makes it, empty.
        options += ["--volume", f"{outside}:{inside}:{'rw' if writable else 'ro'},rslave"]
    return options
