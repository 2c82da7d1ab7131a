"""Where tasks run: here, one after the other, or on Spark."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

from cotenant.errors import UsageError
from cotenant.fleet import DEFAULT
from cotenant.fleet.task import Failure, Task, attempt

HERE: Final = "here"
_SPARK: Final = ("spark://", "local", "yarn", "k8s://")

Told = Callable[[int, int], object]  # How many tasks are done, of how many.


class Runner(Protocol):
    """Runs tasks; a worker that dies changes nothing."""

    threads: int | None  # Of each task's session; None is one for each CPU.

    def run(self, tasks: Sequence[Task], told: Told) -> list[Any]:
        """The results, in the order of the tasks; the error of the first that failed."""


class Here:
    """In this process, one after the other."""

    threads: int | None = None

    def run(self, tasks: Sequence[Task], told: Told) -> list[Any]:
        """Run them all."""
        results = []
        for done, task in enumerate(tasks):
            told(done, len(tasks))
            results += checked([attempt(task)])
        return results


def checked(results: list[Any]) -> list[Any]:
    """The results, if none is a failure."""
    for result in results:
        if isinstance(result, Failure):
            raise result.error
    return results


@contextmanager
def on(where: str) -> Iterator[Runner]:
    """What runs tasks there: ``here``, or a Spark master."""
    if where == HERE:
        yield Here()
        return
    if not where.startswith(_SPARK):
        raise UsageError(f"--on {where}: write {HERE}, {DEFAULT} or spark://HOST:7077")
    from cotenant.fleet.spark import spark

    with spark(where) as runner:
        yield runner
