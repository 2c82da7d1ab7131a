"""Slurm jobs: job id, step, user, account and partition.

The path tells the job id, or since Slurm 26.05 a SLUID. ``slurmstepd``, which runs as
root in the step's own corner, has ``[<job>.<step>]`` in its command line. Account and
partition come from ``scontrol`` where it is installed; a task's environment is the
job's own word, so what it says is kept under labels that say so.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cotenant.identity.naming.names import Labels, Names, clean, clean_labels
from cotenant.identity.path.model import Identity, Job
from cotenant.identity.runtimes.source import Source, ask_program
from cotenant.identity.runtimes.users import UserSource

_STEPD: Final = re.compile(rb"slurmstepd: \[([0-9]+)\.([^\]]+)\]").match
_FIELD: Final = re.compile(r"(?:^|\s)(Account|Partition|UserId|JobName)=(\S+)")
_READ_MAX: Final = 1 << 17
_PROCESSES_MAX: Final = 64


class SlurmSource(Source):
    """The Slurm daemons and jobs of this host."""

    name = "slurm"

    def __init__(
        self,
        mounts: tuple[Path, ...],
        users: UserSource,
        *,
        proc: Path = Path("/proc"),
        scontrol: str | None = None,
    ) -> None:
        super().__init__()
        self.where = scontrol or str(proc)
        self._mounts = mounts  # Where each cgroup hierarchy is mounted.
        self._users = users
        self._proc = proc
        self._scontrol = scontrol

    def serves(self, identity: Identity) -> bool:
        """Slurm's jobs."""
        return identity.job is not None and identity.job.runtime == "slurm"

    def ask(self, identity: Identity, path: str) -> Names | None:
        """Job id, user, account and partition, as far as this host can tell."""
        del path
        job = identity.job
        if job is None:
            return None
        found = self._job_id(identity.owner_path) if job.slurm_job_id is None else None
        job_id = found or (str(job.slurm_job_id) if job.slurm_job_id is not None else None)
        told = self._from_scontrol(job_id) if job_id else {}
        asserted = self._from_environ(identity.owner_path, job)
        user = self._user(identity.owner_path, job) or told.get("UserId", "").partition("(")[0]
        account, partition = told.get("Account"), told.get("Partition")
        return Names(
            source=self.name,
            runtime="slurm",
            name=clean(told.get("JobName")),
            labels=_labels(account, partition, asserted),
            slurm_job=job_id,
            slurm_account=clean(account),
            user=user or None,
            confirmed=job_id is not None,
            complete=job_id is not None and bool(user),
        )

    def _processes(self, path: str, below: str) -> Iterator[str]:
        """Process ids in some cgroups of the job, a bounded number of them."""
        count = 0
        for mount in self._mounts:
            for file in sorted((mount / path.lstrip("/")).glob(f"{below}/cgroup.procs")):
                try:
                    pids = file.read_text("ascii").split()
                except OSError:
                    continue
                for pid in pids:
                    count += 1
                    if count > _PROCESSES_MAX:
                        return
                    yield pid

    def _job_id(self, path: str) -> str | None:
        """The job of a SLUID, from slurmstepd's command line; root's word only."""
        for pid in self._processes(path, "step_*/slurm"):
            try:
                if (self._proc / pid).stat().st_uid != 0:
                    continue
                match = _STEPD(self._read(pid, "cmdline"))
            except OSError:
                continue
            if match:
                return match[1].decode("ascii")
        return None

    def _user(self, path: str, job: Job) -> str | None:
        """Who the job runs for: by the path, else by the owner of its tasks."""
        if job.slurm_uid is not None:
            return self._users.name_of(job.slurm_uid) or str(job.slurm_uid)
        for pid in self._processes(path, "step_*/user/task_*"):
            try:
                uid = (self._proc / pid).stat().st_uid
            except OSError:
                continue
            return self._users.name_of(uid) or str(uid)
        return None

    def _from_environ(self, path: str, job: Job) -> dict[str, str]:
        for pid in self._processes(path, "step_*/user/task_*"):
            try:
                pairs = self._read(pid, "environ").split(b"\0")
            except OSError:
                continue
            text = (pair.decode("utf-8", "replace").partition("=") for pair in pairs)
            values = {key: value for key, _, value in text if key.startswith("SLURM_JOB")}
            if job.slurm_sluid is None or values.get("SLURM_JOB_SLUID") == job.slurm_sluid:
                return values
        return {}

    def _read(self, pid: str, name: str) -> bytes:
        with (self._proc / pid / name).open("rb") as file:
            return file.read(_READ_MAX)

    def _from_scontrol(self, job_id: str) -> dict[str, str]:
        if self._scontrol is None:
            return {}
        return dict(_FIELD.findall(ask_program(self._scontrol, "show", "job", "-o", job_id)))


def _labels(account: str | None, partition: str | None, asserted: dict[str, str]) -> Labels:
    pairs = {
        "slurm.account": account,
        "slurm.partition": partition,
        "asserted.slurm.job": asserted.get("SLURM_JOB_ID"),
        "asserted.slurm.name": asserted.get("SLURM_JOB_NAME"),
        "asserted.slurm.partition": asserted.get("SLURM_JOB_PARTITION"),
        "asserted.slurm.account": asserted.get("SLURM_JOB_ACCOUNT"),
    }
    return clean_labels({key: value for key, value in pairs.items() if value})
