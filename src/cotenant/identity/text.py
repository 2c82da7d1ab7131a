r"""A cgroup's path or name as text: decoded here, and nowhere else.

A cgroup may have any name without ``/`` and newline. Helper and recorder, tracepoints, a walk
and ``/proc`` each tell of the same cgroup: it is one cgroup only if all spell it alike.
"""


def path_text(raw: bytes) -> str:
    r"""The text of a path or name; a byte that is not UTF-8 is spelled out, as in ``\xff``."""
    return raw.decode("utf-8", "backslashreplace")


def lines(raw: bytes) -> list[str]:
    """The lines of a file of paths; only a newline ends one, as a name may hold the rest."""
    return path_text(raw).split("\n")
