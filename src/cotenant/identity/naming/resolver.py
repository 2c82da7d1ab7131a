"""Asks every source that could know a cgroup's names, and joins their answers.

It opens sockets and blocks: the helper runs it in threads of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from cotenant.identity.naming.names import Names
from cotenant.identity.path.model import Identity
from cotenant.identity.runtimes import (
    ContainerdSource,
    DockerSource,
    KubeletSource,
    PodmanSource,
    SlurmSource,
    Source,
    SourceStatus,
    StorageSource,
    UserSource,
)
from cotenant.identity.runtimes.containerd import DOCKER_STATE, K3S_STATE, STATE
from cotenant.identity.runtimes.docker import DOCKER_SOCKET, PODMAN_SOCKET
from cotenant.identity.runtimes.kubelet import READ_ONLY, TOKEN

_SCONTROL: Final = "/usr/bin/scontrol"


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """Where the sources are, for hosts that keep them elsewhere."""

    docker: tuple[str, ...] = (DOCKER_SOCKET,)
    podman: tuple[str, ...] = (PODMAN_SOCKET,)
    containerd: tuple[str, ...] = (str(STATE), str(DOCKER_STATE), str(K3S_STATE))
    kubelet: str = READ_ONLY
    kubelet_token: str = str(TOKEN)
    kubelet_authority: str | None = None
    kubelet_file: str | None = None
    scontrol: str | None = None


class Resolver:
    """Puts one question to each source that could know, and joins the answers."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = tuple(sources)

    def lookup(self, identity: Identity, cgroup_path: str) -> Names | None:
        """Everything known by name about an identity; None if nothing is.

        Blocks for at most the sources' time limits; safe to call from several threads.
        """
        found: Names | None = None
        failing = False
        for source in self._sources:
            if not source.serves(identity):
                continue
            if found and found.confirmed and found.name and not source.adds:
                continue
            names = source.lookup(identity, cgroup_path)
            if names is not None:
                found = names if found is None else found.joined(names)
            failing |= source.failing()
        if found is None:
            return None
        named = bool(found.confirmed and found.name) or not identity.layers
        return replace(found, complete=found.complete and named and not failing)

    def serves(self, identity: Identity) -> bool:
        """Whether any source could know anything about this."""
        return any(source.serves(identity) for source in self._sources)

    def status(self) -> tuple[SourceStatus, ...]:
        """How each source has done so far, for ``cotenant doctor``."""
        return tuple(source.status() for source in self._sources)


def default_resolver(mounts: Sequence[Path], settings: SourceSettings | None = None) -> Resolver:
    """The sources of an ordinary host; ``mounts`` are those of the cgroup hierarchies."""
    chosen = settings or SourceSettings()
    users = UserSource()
    scontrol = chosen.scontrol or (_SCONTROL if Path(_SCONTROL).exists() else None)
    return Resolver(
        [
            users,
            SlurmSource(tuple(mounts), users, scontrol=scontrol),
            *(ContainerdSource(Path(state)) for state in chosen.containerd),
            StorageSource(),
            *(DockerSource(where) for where in chosen.docker),
            *(PodmanSource(where) for where in chosen.podman),
            KubeletSource(
                chosen.kubelet,
                token=Path(chosen.kubelet_token),
                authority=Path(chosen.kubelet_authority) if chosen.kubelet_authority else None,
                file=Path(chosen.kubelet_file) if chosen.kubelet_file else None,
            ),
        ]
    )
