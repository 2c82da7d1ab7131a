"""Runs tasks on Spark: each is one task of a job, and starts again elsewhere if its worker dies."""

import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from cotenant.errors import UsageError
from cotenant.fleet.master import SparkError, check_reachable
from cotenant.fleet.runner import HERE, Told, checked
from cotenant.fleet.task import Task, attempt

_LOOK_S: Final = 0.25
_CONF: Final = {
    "spark.app.name": "cotenant",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A worker that dies takes its tasks with it; the same one may die again.
    "spark.task.maxFailures": "8",
}


class _Spark:
    """A Spark application."""

    threads: int | None = 1  # A task has one CPU.

    def __init__(self, context: Any) -> None:
        self._context = context

    def run(self, tasks: Sequence[Task], told: Told) -> list[Any]:
        """One job with a partition for each task."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        ended = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(len(tasks), told, ended), daemon=True)
        watcher.start()
        try:
            return checked(self._context.parallelize(tasks, len(tasks)).map(attempt).collect())
        except (PySparkException, Py4JError) as error:
            raise SparkError(f"Spark gave up: {_reason(error)}") from error
        finally:
            ended.set()
            watcher.join()

    def _watch(self, number: int, told: Told, ended: threading.Event) -> None:
        tracker = self._context.statusTracker()
        while not ended.wait(_LOOK_S):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            told(sum(stage.numCompletedTasks for stage in stages if stage), number)


@contextmanager
def spark(master: str) -> Iterator[_Spark]:
    """An application on this master, for as long as the context lasts."""
    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.java_gateway import launch_gateway
    except ImportError as error:
        raise UsageError(
            f"--on {master} needs Spark: pip install 'cotenant[spark]'; --on {HERE} needs nothing"
        ) from error
    check_reachable(master)
    # Workers are to have what this process has; on other machines, under the same path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf().setMaster(master).setAll(list(_CONF.items()))
    with tempfile.NamedTemporaryFile(prefix="cotenant-spark-", suffix=".log") as log:
        context = None
        try:
            # The JVM would tell of itself on this terminal.
            gateway = launch_gateway(conf, popen_kwargs={"stdout": log, "stderr": log})
            context = SparkContext(gateway=gateway, conf=conf)
            context.setLogLevel("ERROR")
        except Exception as error:  # py4j and pyspark raise many kinds.
            raise SparkError(
                f"Spark does not start on {master}: {_last(log.name, error)}"
            ) from error
        try:
            yield _Spark(context)
        finally:
            context.stop()
            _end(gateway)
            # Else the next application of this process would be asked of a JVM that is gone.
            SparkContext._gateway = SparkContext._jvm = None


def _end(gateway: Any) -> None:
    """Let the JVM go; it ends when its input does."""
    gateway.shutdown()
    if gateway.proc is not None:
        gateway.proc.stdin.close()
        gateway.proc.wait()


def _reason(error: Exception) -> str:
    """The first line that says what happened, not where."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if "Exception:" in line or "aborted" in line]
    return (told or lines or [type(error).__name__])[0]


def _last(log: str, error: Exception) -> str:
    """What the JVM said last; else the error."""
    lines = [line.strip() for line in Path(log).read_text(errors="replace").splitlines()]
    told = [line for line in lines if "Exception" in line or "ERROR" in line or "JAVA_HOME" in line]
    return told[-1] if told else _reason(error)
