"""Work that takes its time, so that a worker can die in the midst of it."""

import time
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Slowed:
    """The same work, and half a second more."""

    work: Any

    def __call__(self, session: Any) -> Any:
        time.sleep(0.5)
        return self.work(session)


def slowed(task: Any) -> Any:
    """The same task with such work."""
    return replace(task, work=Slowed(task.work))
