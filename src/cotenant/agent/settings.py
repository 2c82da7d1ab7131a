"""What a recording is told, in one place."""

import grp
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cotenant.agent.config import Config
from cotenant.agent.protocol.requests import HelperSettings, LayersChoice, ProbesChoice
from cotenant.errors import UsageError
from cotenant.identity.translation import Preference
from cotenant.identity.walk import mounts
from cotenant.schema.events import ENUMS
from cotenant.schema.families import FAMILIES

# Version 1 controllers that may name tenants, in the order in which they are asked.
V1_CONTROLLERS: Final = {name: number for number, name in ENUMS["v1_controller"].items()}

SHARE: Final = 0.05
KERNEL_SHARE: Final = 0.01
REST_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Settings:
    """One recording."""

    store: Path
    seconds: float | None = None
    attach: str | None = None
    probes: ProbesChoice = "auto"  # Whether they may be single-stepped.
    layers: LayersChoice = "auto"
    calls: str = "operations"
    hierarchy: str = "auto"
    events_bytes: int = 16 << 20
    seal_every_s: float = 0.5
    events: tuple[str, ...] = tuple(FAMILIES)
    # Spans of threads that use no GPU library become rows from here on.
    host_threshold_ns: int = 10_000_000
    host_rows: str = "gpu"  # Or "all": every span of every thread.
    net_rows: str = "network"  # Or "all": messages over Unix sockets, too.
    group: str | None = None  # None is the usual one, where there is one.
    user: str | None = None  # None is the usual one, or its number where there is none.
    config: Config = field(default_factory=Config)
    node: str | None = None  # None is what the configuration, the environment or the host says.
    adopt: bool = False  # Take over a node of this name that another machine recorded.
    budget: float = SHARE  # Of a thread's time that probes may cost it; 0 is no limit.
    # Of each CPU's time that programs on kernel events may take; 0 is no limit.
    kernel_budget: float = KERNEL_SHARE
    budget_rest_s: float = REST_S  # For how long those that cost more at entry, too, are detached.
    keep_ns: int | None = None  # None keeps rows for ever,
    keep_rollups_ns: int | None = None  # and rollups.
    max_bytes: int | None = None


def v1_hierarchies() -> dict[str, int]:
    """Mounted version 1 controllers and the number of their hierarchy."""
    found = {}
    with open("/proc/self/cgroup") as file:
        for line in file:
            number, controllers, _ = line.split(":", 2)
            for controller in controllers.split(","):
                if controller in V1_CONTROLLERS and number != "0":
                    found[controller] = int(number)
    return found


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """The version 1 controller that rides along with version 2; none where it is not needed."""

    controller: str | None
    number: int  # The hierarchy's number; 0 is version 2.
    preference: Preference = Preference()

    @property
    def v1_controller(self) -> int:
        """As the BPF programs number it."""
        return V1_CONTROLLERS[self.controller] if self.controller else -1


def choose_hierarchy(asked: str) -> Hierarchy:
    """The hierarchy that names tenants: version 2, with one of version 1 beside it if mounted."""
    mounted = v1_hierarchies()
    if asked == "v2":
        return Hierarchy(None, 0)
    if asked in mounted:
        return Hierarchy(asked, mounted[asked], Preference(prefer="v1"))
    if asked != "auto":
        names = ", ".join(mounted) or "none"
        raise UsageError(
            f"--hierarchy {asked}: unknown; choose auto, v2 or a mounted v1 controller ({names})"
        )
    for controller in V1_CONTROLLERS:
        if controller in mounted:
            in_use = any(mount.hierarchy == 0 for mount in mounts())
            return Hierarchy(controller, mounted[controller], Preference(v2_in_use=in_use))
    return Hierarchy(None, 0)


def store_group(asked: str | None) -> int | None:
    """The group that may read a store: the one asked for, else cotenant's if there is one."""
    try:
        return grp.getgrnam(asked or "cotenant").gr_gid
    except KeyError:
        if asked is None:
            return None
        raise UsageError(f"--group {asked}: no such group; create it, or name another") from None


def for_helper(settings: Settings, hierarchy: Hierarchy) -> HelperSettings:
    """What the helper needs to know of the settings."""
    return HelperSettings(
        events_bytes=settings.events_bytes,
        attach=settings.attach,
        probes=settings.probes,
        layers=settings.layers,
        events=settings.events,
        config=settings.config,
        constants={
            "v1_controller": hierarchy.v1_controller,
            "v1_hierarchy": hierarchy.number,
            "every_call": int(settings.calls == "all"),
            "host_threshold_ns": settings.host_threshold_ns,
            "host_all": int(settings.host_rows == "all"),
            "net_all": int(settings.net_rows == "all"),
            "waits_secret": secrets.randbits(63),
        },
    )
