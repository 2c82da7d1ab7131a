"""Where a recording stands."""

from dataclasses import dataclass
from typing import Self

from cotenant.agent.recorder.samplers.losses import Losses


@dataclass(frozen=True, slots=True)
class Progress:
    """For whoever shows it while the recording runs."""

    events: int
    tenants: int
    lost: int
    libraries: int
    trouble: str | None = None

    @classmethod
    def of(cls, losses: Losses, *, events: int, libraries: int, trouble: str | None) -> Self:
        """From the counts so far."""
        return cls(
            events=events,
            tenants=len({tally[1:] for tally in losses.stored}),
            lost=losses.total("lost") + losses.total("shed"),
            libraries=libraries,
            trouble=trouble,
        )
