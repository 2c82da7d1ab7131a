"""Batch schedulers' cgroups: Slurm, PBS, HTCondor, Nomad.

A job counts only where its scheduler puts it, at the top of the host's tree: the same
any user can create such names below a user's slice or inside a container.
"""

import re
from collections.abc import Sequence
from typing import Final

from cotenant.identity.path.model import Job
from cotenant.identity.path.units import unescape

_STEPD: Final = re.compile(r"(?:(?P<node>.+)_)?slurmstepd\.scope").fullmatch
_SLURM_ROOT: Final = re.compile(r"slurm(?:_(?P<node>.+))?").fullmatch
_SLURM_UID: Final = re.compile(r"uid_([0-9]{1,10})").fullmatch
_SLURM_JOB: Final = re.compile(r"job_([0-9]{1,10})").fullmatch
# 13 Crockford digits hold 65 bits, an id 64: the first digit is at most F.
_SLUID: Final = re.compile(r"s[0-9A-F][0-9A-HJKMNP-TV-Z]{12}").fullmatch
_STEP: Final = re.compile(r"step_([A-Za-z0-9_+.-]+)").fullmatch
_TASK: Final = re.compile(r"task_([A-Za-z0-9_]+)").fullmatch
_PBS_ROOT: Final = re.compile(r"pbs(?:pro|_jobs)?(?:\.service|\.slice)?").fullmatch
_PBS_JOB: Final = re.compile(r"([0-9]+(?:\[[0-9]*\])?)(?:\..+)?").fullmatch
_PBS_SLICE: Final = re.compile(r"pbs(?:pro|_jobs)?-(.+)\.slice").fullmatch
_CONDOR_ROOTS: Final = frozenset({"htcondor", "condor", "condor.service", "htcondor.service"})
_CONDOR_SLOT: Final = re.compile(r"condor_.*?(slot[0-9]+(?:_[0-9]+)*)(?:@.*)?").fullmatch
_UUID: Final = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_NOMAD_TASK: Final = re.compile(rf"({_UUID})\.(.+?)(?:\.scope)?").fullmatch
_NOMAD_PARTS: Final = frozenset({"share", "share.slice", "reserve", "reserve.slice"})


def find_job(parts: Sequence[str], slices: int) -> Job | None:
    """The batch job of a host path whose first ``slices`` components are slices."""
    first = parts[0]
    if slices < len(parts):
        leaf = parts[slices]
        if leaf.endswith("slurmstepd.scope"):
            return _slurm(parts, slices + 1, _STEPD(leaf))
        if leaf.startswith("slurm") and slices == 0 and len(parts) > 1:
            return _slurm(parts, 1, _SLURM_ROOT(leaf))
        if leaf in _CONDOR_ROOTS:
            return _condor(parts, slices + 1)
    if first.startswith("nomad"):
        return _nomad(parts)
    if first.startswith("pbs") or (slices == 1 and len(parts) > 1 and parts[1].startswith("pbs")):
        return _pbs(parts, 0 if first.startswith("pbs") else 1)
    return None


def _slurm(parts: Sequence[str], index: int, root: re.Match[str] | None) -> Job | None:
    if root is None or index >= len(parts):
        return None
    uid = None
    if match := _SLURM_UID(parts[index]):
        uid = int(match[1])
        index += 1
        if index >= len(parts):
            return None
    job, sluid = _SLURM_JOB(parts[index]), _SLUID(parts[index])
    if not job and not sluid:
        return None
    end = index + 1
    step, task, monitor = _slurm_step(parts, end)
    return Job(
        runtime="slurm",
        job_id=job[1] if job else parts[index],
        end=end,
        slurm_job_id=int(job[1]) if job else None,
        slurm_sluid=parts[index] if sluid else None,
        slurm_step=step,
        slurm_task=task,
        slurm_uid=uid,
        monitor=monitor,
        extra=(("slurm_node", root["node"]),) if root["node"] else (),
    )


def _slurm_step(parts: Sequence[str], index: int) -> tuple[str | None, str | None, bool]:
    """Step, task, and whether this is slurmstepd's own corner."""
    if index >= len(parts) or not (step := _STEP(parts[index])):
        return None, None, False
    index += 1
    if index < len(parts) and parts[index] == "slurm":
        return step[1], None, True
    if index < len(parts) and parts[index] == "user":
        index += 1
    task = _TASK(parts[index]) if index < len(parts) else None
    return step[1], task[1] if task else None, False


def _pbs(parts: Sequence[str], index: int) -> Job | None:
    if index + 1 >= len(parts) or not _PBS_ROOT(parts[index]):
        return None
    index += 1
    text = parts[index]
    if text in ("jobid", "jobs") and index + 1 < len(parts):
        index += 1
        text = parts[index]
    elif match := _PBS_SLICE(text):
        text = match[1]
    match = _PBS_JOB(unescape(text))
    if not match:
        return None
    return Job("pbs", match[1], index + 1, extra=(("pbs_job_id", match[1]),))


def _condor(parts: Sequence[str], index: int) -> Job | None:
    match = _CONDOR_SLOT(parts[index]) if index < len(parts) else None
    if not match:
        return None
    return Job("htcondor", match[1], index + 1, extra=(("htcondor_slot", match[1]),))


def _nomad(parts: Sequence[str]) -> Job | None:
    if parts[0] not in ("nomad", "nomad.slice"):
        return None
    index = 2 if len(parts) > 1 and parts[1] in _NOMAD_PARTS else 1
    match = _NOMAD_TASK(parts[index]) if index < len(parts) else None
    if not match:
        return None
    extra = (("nomad_alloc_id", match[1]), ("nomad_task", match[2]))
    return Job("nomad", f"{match[1]}/{match[2]}", index + 1, extra=extra)
