"""Whether a runtime's container really is the cgroup that carries its id.

Any user who may create a cgroup can name it after another container. A runtime's word is
taken only where it places its container in this very cgroup.
"""

from pathlib import Path

from cotenant.identity.path.procfile import split_line
from cotenant.identity.text import lines


def oci_path_is(cgroups_path: str, path: str) -> bool:
    """Whether the OCI ``linux.cgroupsPath`` of a container means the cgroup ``path``."""
    parts = cgroups_path.split(":")
    if len(parts) != 3:
        return bool(cgroups_path) and "/" + cgroups_path.strip("/") == path
    slice_, prefix, name = parts
    parent, _, leaf = path.rpartition("/")
    if leaf == cgroups_path:  # A cgroupfs runtime made a directory of the triple.
        return True
    scope = f"{prefix}-{name}.scope" if prefix else f"{name}.scope"
    return leaf == scope and parent.endswith("/" + (slice_ or "system.slice"))


def docker_path_is(cgroup_parent: str, container_id: str, path: str) -> bool:
    """Whether Docker, told this parent, puts the container at ``path``."""
    parent, _, leaf = path.rpartition("/")
    if leaf == f"docker-{container_id}.scope":
        return parent.endswith("/" + (cgroup_parent or "system.slice"))
    if leaf != container_id:
        return False
    return parent == "/" + (cgroup_parent or "docker").strip("/")


def process_is_in(pid: int, path: str, proc: Path = Path("/proc")) -> bool:
    """Whether a process is in the cgroup, or below it, in any hierarchy."""
    if pid <= 0:
        return False
    try:
        raw = (proc / str(pid) / "cgroup").read_bytes()
    except OSError:
        return False
    paths = [line.path for text in lines(raw) if (line := split_line(text))]
    return any(f"{found}/".startswith(f"{path}/") for found in paths)
