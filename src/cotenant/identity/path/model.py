"""What a cgroup path says about who is in it.

An :class:`Identity` is plain, frozen data. Its flat fields describe the innermost names,
as ``python -m cotenant.identity`` prints them; ``owner``, ``owner_path`` and ``layers``
keep the outermost ones, which decide the tenant. Named tuples, because a frozen
dataclass of this size takes longer to build than the path takes to read.
"""

from enum import StrEnum
from typing import NamedTuple


class Trust(StrEnum):
    """Who vouches for the names of an identity."""

    HOST = "host"  # Root's systemd, kubelet, runtime or scheduler made the name.
    USER = "user"  # A user could have made it, below user@UID.service.
    NESTED = "nested"  # It lies below a container or job, which could have made it.
    UNVERIFIED = "unverified"  # The host's tree holds it, but others can imitate it.


class Owner(StrEnum):
    """What kind of outermost name the host gave; it decides the tenant."""

    ROOT = "root"  # The root cgroup: the host itself.
    USER = "user"  # A user's slice: everything in it is that user's.
    JOB = "job"  # A batch job: Slurm, PBS, HTCondor, Nomad.
    CONTAINER = "container"  # A container or pod made by a runtime of the host.
    UNIT = "unit"  # A systemd unit of the host's manager.
    PATH = "path"  # A cgroup that nothing here knows.


class Layer(NamedTuple):
    """One container (or pod without one) on the way down the path."""

    runtime: str
    container_id: str | None
    pod_uid: str | None
    qos: str | None
    path: str  # The cgroup that is this container's own.
    at: int  # Which component of the path names it.


class Job(NamedTuple):
    """A batch job that the host's scheduler placed in this path."""

    runtime: str
    job_id: str
    end: int  # How many components name the job.
    slurm_job_id: int | None = None
    slurm_sluid: str | None = None
    slurm_step: str | None = None
    slurm_task: str | None = None
    slurm_uid: int | None = None
    monitor: bool = False
    extra: tuple[tuple[str, str], ...] = ()


class Identity(NamedTuple):
    """Everything that one cgroup path says, and how far it can be believed."""

    runtime: str = "none"
    container_id: str | None = None
    outer_container_id: str | None = None
    pod_uid: str | None = None
    qos: str | None = None
    unit: str | None = None
    user_unit: str | None = None
    user_uid: int | None = None
    job: Job | None = None
    trust: Trust = Trust.HOST
    monitor: bool = False  # A supervisor of the workload, not the workload.
    relative: bool = False  # Seen from another cgroup namespace: the top is missing.
    owner: Owner = Owner.ROOT
    owner_path: str = "/"
    layers: tuple[Layer, ...] = ()
    extra: tuple[tuple[str, str], ...] = ()
    claimed: bool = False  # Any directory could be called so: /<namespace>/<id>.

    @property
    def subject_path(self) -> str:
        """The cgroup whose name a runtime or scheduler can tell; rows share it."""
        if self.layers and self.owner is not Owner.JOB:
            return self.layers[0].path
        return self.owner_path

    @property
    def names_workload(self) -> bool:
        """Whether it names a container, a pod or a job, not only a place on the host."""
        return bool(self.layers) or self.job is not None

    def as_json(self) -> dict[str, object]:
        """The flat fields, as ``python -m cotenant.identity`` prints them."""
        job = self.job or _NO_JOB
        return {
            "runtime": self.runtime,
            "container_id": self.container_id,
            "pod_uid": self.pod_uid,
            "qos": self.qos,
            "unit": self.unit,
            "user_unit": self.user_unit,
            "user_uid": self.user_uid,
            "slurm_job_id": job.slurm_job_id,
            "slurm_sluid": job.slurm_sluid,
            "slurm_step": job.slurm_step,
            "slurm_task": job.slurm_task,
            "slurm_uid": job.slurm_uid,
            "outer_container_id": self.outer_container_id,
            "trust": str(self.trust),
            "extra": self._extra(),
        }

    def _extra(self) -> dict[str, object]:
        extra: dict[str, object] = dict(self.extra)
        # A claimed container or pod that its inhabitant could have written says so here.
        claims_pod = len(self.layers) > 1 and any(x.pod_uid for x in self.layers[1:])
        if (self.trust is Trust.NESTED and claims_pod) or (
            self.trust is Trust.USER and self.layers
        ):
            extra["trust"] = str(self.trust)
        return extra


_NO_JOB = Job("none", "", 0)
