"""``/proc/PID/cgroup``: one line per hierarchy, together one process's identity."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from cotenant.identity.path.model import Identity, Trust
from cotenant.identity.path.parser import parse_path

# The path may hold colons: a line has exactly two separators.
_LINE: Final = re.compile(r"([0-9]{1,10}):([^:]*):(/.*)", re.DOTALL).fullmatch


class Line(NamedTuple):
    """One hierarchy's line; version 2 is hierarchy 0."""

    hierarchy: int
    controllers: str
    path: str


def split_line(text: str) -> Line | None:
    """The three fields of a line; None where the kernel would not write it so."""
    match = _LINE(text.rstrip("\n"))
    return Line(int(match[1]), match[2], match[3]) if match else None


def parse_line(text: str) -> Identity:
    """What one line of ``/proc/PID/cgroup`` says."""
    line = split_line(text)
    return parse_path(line.path) if line else Identity()


def parse_file(text: str) -> Identity:
    """What all lines say together.

    A line that names a container or a job wins over one that names a place. Two lines
    that name different ones cannot both be right: neither is believed.
    """
    lines = [line for raw in text.split("\n") if (line := split_line(raw))]
    lines.sort(key=_order)
    identities = [parse_path(line.path) for line in lines]
    named = [identity for identity in identities if identity.layers]
    jobs = [identity for identity in identities if identity.job]
    if named:
        return _with_job(_agree(named), jobs)
    if jobs:
        return _agree_jobs(jobs)
    known = [identity for identity in identities if identity.runtime != "none"]
    return known[0] if known else Identity()


def _order(line: Line) -> tuple[int, int]:
    """Version 2 first, then systemd's own hierarchy, then the rest as they stand."""
    if line.hierarchy == 0:
        return 0, 0
    return (1, 0) if line.controllers == "name=systemd" else (2, 0)


def _chain(identity: Identity) -> tuple[str, ...]:
    """The pods and containers from the outermost on, to be compared between hierarchies."""
    chain: list[str] = []
    for layer in identity.layers:
        if layer.pod_uid:
            chain.append(layer.pod_uid)
        if layer.container_id:
            chain.append(layer.container_id)
    return tuple(chain)


def _agree(named: Sequence[Identity]) -> Identity:
    """The most detailed identity, if all others only leave out its inner part."""
    best = max(named, key=lambda identity: len(_chain(identity)))
    chain = _chain(best)
    if all(chain[: len(_chain(other))] == _chain(other) for other in named):
        return best
    ids = sorted({other.container_id for other in named if other.container_id})
    return Identity(runtime="unknown", trust=Trust.UNVERIFIED, extra=(("conflict", ",".join(ids)),))


def _with_job(identity: Identity, jobs: Sequence[Identity]) -> Identity:
    """Slurm 21 writes the job in one hierarchy only: the container's line may lack it."""
    if identity.job or not identity.layers or not jobs:
        return identity
    return identity._replace(job=_agree_jobs(jobs).job)


def _agree_jobs(jobs: Sequence[Identity]) -> Identity:
    keys = {(x.job.runtime, x.job.job_id) for x in jobs if x.job}
    if len(keys) > 1:
        text = ",".join(sorted(f"{runtime} {job}" for runtime, job in keys))
        return Identity(runtime="unknown", trust=Trust.UNVERIFIED, extra=(("conflict", text),))
    # The line that also tells the step and the task says most.
    return max(
        jobs, key=lambda x: (bool(x.job and x.job.slurm_step), bool(x.job and x.job.slurm_task))
    )
