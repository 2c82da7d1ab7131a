"""Sources of names: container runtimes, kubelet, Slurm, the user database."""

from cotenant.identity.runtimes.containerd import ContainerdSource
from cotenant.identity.runtimes.docker import DockerSource, PodmanSource
from cotenant.identity.runtimes.kubelet import KubeletSource
from cotenant.identity.runtimes.slurm import SlurmSource
from cotenant.identity.runtimes.source import Source, SourceStatus
from cotenant.identity.runtimes.storage import StorageSource
from cotenant.identity.runtimes.users import UserSource

__all__ = [
    "ContainerdSource",
    "DockerSource",
    "KubeletSource",
    "PodmanSource",
    "SlurmSource",
    "Source",
    "SourceStatus",
    "StorageSource",
    "UserSource",
]
