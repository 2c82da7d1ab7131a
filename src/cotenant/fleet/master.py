"""Whether a Spark master can be had: Spark itself takes more than a minute to tell."""

import socket
from typing import Final

from cotenant.errors import CotenantError, UsageError
from cotenant.fleet.runner import HERE

STANDALONE: Final = "spark://"
_WITHIN_S: Final = 5.0


class SparkError(CotenantError):
    """Spark is not there, or could not run the tasks."""


def check_reachable(master: str) -> None:
    """Refuse an address where nothing listens; of several masters, one is enough."""
    if not master.startswith(STANDALONE):
        return
    reasons = [_unreachable(place) for place in master.removeprefix(STANDALONE).split(",")]
    if all(reasons):
        raise SparkError(
            f"no Spark master at {master}: {reasons[0]}; start one there, or do with --on {HERE}"
        )


def _unreachable(place: str) -> str | None:
    """Why nothing can be reached there; None if something can."""
    host, _, port = place.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise UsageError(f"--on {STANDALONE}{place}: write {STANDALONE}HOST:7077")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _WITHIN_S).close()
    except OSError as error:
        return error.strerror or str(error)
    return None
