"""A simulated tenant as data: what it is called and what it runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Tenant:
    """One tenant; each command is a line of arguments to the workload, all run at once."""

    name: str
    commands: tuple[tuple[str, ...], ...]
    library_place: str = "/usr/lib/x86_64-linux-gnu"
    environment: Mapping[str, str] = field(default_factory=dict)


def demo_tenants(seconds: float) -> tuple[Tenant, ...]:
    """Three tenants that share a GPU for about so long: a training job, a server, a nuisance."""
    rank = ("train", "--api", "runtime13", "--kernels", "2", "--rate", "20", "--seed", "1",
            "--steps", str(max(1, int(20 * seconds))), "--ranks", "2", "--id-file", "/log/id")  # fmt: skip
    return (
        Tenant(
            "train",
            (
                (*rank, "--rank", "0", "--checkpoint", "/tmp/checkpoint"),
                (*rank, "--rank", "1"),
            ),
        ),
        Tenant(
            "serve",
            (("serve", "--api", "driver", "--kernels", "2", "--rate", "12", "--seed", "2",
              "--steps", str(max(1, int(12 * seconds)))),),
            library_place="/opt/serve/lib",
        ),  # fmt: skip
        Tenant(
            "noisy",
            (("noisy", "--api", "runtime12", "--kernels", "1", "--rate", "200", "--seed", "3",
              "--steps", str(max(1, int(200 * seconds)))),),
            library_place="/usr/local/cuda/lib64",
        ),  # fmt: skip
    )


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

    def prepare(self, tenants: tuple[Tenant, ...]) -> None:
        """Make the directories."""
        self.device.mkdir(parents=True, exist_ok=True)
        for tenant in tenants:
            self.log(tenant.name).mkdir(parents=True, exist_ok=True)
