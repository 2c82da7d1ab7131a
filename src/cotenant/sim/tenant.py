"""A simulated tenant as data: what it is called and what it runs."""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from cotenant.errors import CotenantError


@dataclass(frozen=True, slots=True)
class SimulatedTenant:
    """One tenant; each command is a line of arguments to the workload, all run at once."""

    name: str
    commands: tuple[tuple[str, ...], ...]
    library_place: str = "/usr/lib/x86_64-linux-gnu"
    environment: Mapping[str, str] = field(default_factory=dict)


def demo_tenants(seconds: float) -> tuple[SimulatedTenant, ...]:
    """Three tenants that share a GPU for about so long: a training job, a server, a nuisance.

    The nuisance has work for half of the time: how slow the others are without it shows too.
    """
    rank = _words(
        f"train --api runtime13 --kernels 2 --rate 20 --seed 1 --steps {20 * seconds:.0f}"
    )
    # An id that another demo left behind would have each rank wait for one that does not come.
    job = (*rank, "--ranks", "2", "--id-file", f"/log/{uuid4().hex}.id")
    serve = f"serve --api driver --kernels 2 --rate 12 --seed 2 --steps {12 * seconds:.0f}"
    noisy = f"noisy --api runtime12 --kernels 1 --rate 200 --seed 3 --steps {200 * seconds:.0f}"
    return (
        SimulatedTenant(
            "train",
            ((*job, "--rank", "0", "--checkpoint", "/tmp/checkpoint"), (*job, "--rank", "1")),
            environment=_kernel_ns("gemm=14000000,softmax=6000000"),
        ),
        SimulatedTenant(
            "serve",
            (_words(serve),),
            library_place="/opt/serve/lib",
            environment=_kernel_ns("*=500000"),
        ),
        SimulatedTenant(
            "noisy",
            (_words(f"{noisy} --burst 64"),),
            library_place="/usr/local/cuda/lib64",
            environment=_kernel_ns("*=2500000"),
        ),
    )


def _kernel_ns(times: str) -> dict[str, str]:
    return {"COTENANT_SIM_KERNEL_NS": times}


def _words(line: str) -> tuple[str, ...]:
    return tuple(line.split())


@dataclass(frozen=True, slots=True)
class Shared:
    """What the tenants of one host share: the device, and where each writes down what it did."""

    directory: Path

    @property
    def device(self) -> Path:
        """Directory of the simulated GPU's shared memory."""
        return self.directory / "device"

    def log(self, tenant: str) -> Path:
        """Directory of one tenant's truth logs."""
        return self.directory / "truth" / tenant

    def prepare(self, tenants: tuple[SimulatedTenant, ...]) -> None:
        """Create the directories; refuse another user's, because tenants run as root."""
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        _own(self.directory)
        _own(self.device)
        _own(self.directory / "truth")
        for tenant in tenants:
            _own(self.log(tenant.name))


def _own(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o755)
    except FileExistsError:
        status = directory.lstat()
        theirs = status.st_uid != os.geteuid() or status.st_mode & 0o022
        if theirs or not stat.S_ISDIR(status.st_mode):
            raise CotenantError(
                f"{directory} is not a directory, or other users can write to it; "
                "remove it, or choose another --store"
            ) from None
    except OSError as error:
        raise CotenantError(
            f"cannot create {directory}: {error.strerror}; choose another --store"
        ) from error
