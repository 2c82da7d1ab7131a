"""Which node this is: its name in the store, and the machine behind the name.

A store keeps a hash of the machine's id beside a node's segments, so that two machines that are
called the same do not write into each other's. The id itself is confidential (machine-id(5)).
"""

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cotenant.errors import UsageError

VARIABLE: Final = "NODE_NAME"  # As a DaemonSet sets it, from spec.nodeName.

# A part of a path, `node=NAME`, and what follows the @ in `tenant@node`.
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,198}[A-Za-z0-9])?")
_MACHINE_ID: Final = re.compile(r"[0-9a-f]{32}")
_SHOWN: Final = Path("/run/host/etc/machine-id")
_MOST_BYTES: Final = 64
_FIRST_PID_NAMESPACE: Final = 0xEFFFFFFC  # Its inode, on any kernel.
_SIGNS_OF_A_CONTAINER: Final = (Path("/.dockerenv"), Path("/run/.containerenv"))


def checked_name(name: str, given_by: str) -> str:
    """The name; UsageError if it cannot be a node's."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{given_by} {name!r} cannot name a node; use up to 200 letters, digits, '.', '_' "
            "or '-', the first and the last a letter or digit"
        )
    return name


def node_name(asked: str | None, configured: str | None, variables: Mapping[str, str]) -> str:
    """What was asked for, else what the host's configuration or the environment says."""
    if asked is not None:
        return checked_name(asked, "--node")
    if configured is not None:
        return checked_name(configured, "`node` in the configuration")
    if variables.get(VARIABLE):
        return checked_name(variables[VARIABLE], f"${VARIABLE}")
    return _host_name(os.uname().nodename)


def _host_name(name: str) -> str:
    """The host's own name: whatever it is, recording does not fail for it."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:200].strip("._-")
    return name or "localhost"


def machine() -> str | None:
    """A hash of the host's machine-id; None where it cannot be known.

    In a pod that sees the host's processes, the host's files are those of process 1. A container
    may also have been shown the host's where systemd's container interface has it.
    """
    places = [_SHOWN]
    if among_all_processes():
        places.append(Path("/proc/1/root/etc/machine-id"))
    if not _in_container():
        places.append(Path("/etc/machine-id"))
    return next((hashed for place in places if (hashed := _hashed(place))), None)


def among_all_processes() -> bool:
    """Whether processes have the numbers here that the kernel's probes see."""
    return os.stat("/proc/self/ns/pid").st_ino == _FIRST_PID_NAMESPACE


def _in_container() -> bool:
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return True
    return any(sign.exists() for sign in _SIGNS_OF_A_CONTAINER)


def _hashed(place: Path) -> str | None:
    """None where there is no machine-id yet, as in an image that has not been started."""
    try:
        with place.open("rb") as file:
            text = file.read(_MOST_BYTES).decode("ascii", "replace").strip()
    except OSError:
        return None
    if not _MACHINE_ID.fullmatch(text):
        return None
    return hashlib.blake2b(text.encode(), digest_size=16, key=b"cotenant node").hexdigest()
