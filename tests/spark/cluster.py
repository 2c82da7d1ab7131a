"""A Spark cluster on loopback: a master and two workers, each a process of its own."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
STARTS_WITHIN_S = 120


def why_not():
    """What is missing here; None if a cluster can be had."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "needs pyspark: `make spark-test` installs it"
    return None if shutil.which("java") else "needs Java: `make spark-test` installs it"


class Cluster:
    """Starts on entry; ``lose_worker`` kills one and all that it started."""

    def __init__(self, scratch):
        import pyspark

        self._home, self._scratch = Path(pyspark.__file__).parent, scratch
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.master = f"spark://127.0.0.1:{free.getsockname()[1]}"
        self._workers, self._started = [], []

    def __enter__(self):
        port = self.master.rpartition(":")[2]
        self._start("master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", "0")
        self._until_listening(int(port))
        for _ in range(2):
            self.add_worker()
        return self

    def __exit__(self, *_):
        for process in self._started:
            _end(process)

    def add_worker(self):
        """One more, with one CPU."""
        words = ["--cores", "1", "--memory", "1g", "--webui-port", "0", "--host", "127.0.0.1"]
        self._workers.append(self._start("worker.Worker", *words, self.master))

    def lose_worker(self):
        """As if its machine had lost power."""
        _end(self._workers.pop(0))

    def cpu_s(self):
        """What master, workers and all that they started have used so far."""
        sessions = {process.pid for process in self._started}
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                words = stat.read_text().rpartition(")")[2].split()
                # The session, then the time of the process and of children that it waited for.
                if int(words[3]) in sessions:
                    ticks += sum(map(int, words[11:15]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def _start(self, what, *words):
        number = len(self._started)
        environment = os.environ | {
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(self._scratch / f"work-{number}"),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
        }
        log = (self._scratch / f"{what}-{number}.log").open("wb")
        command = [self._home / "bin/spark-class", f"org.apache.spark.deploy.{what}", *words]
        with log:
            process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        self._started.append(process)
        return process

    def _until_listening(self, port):
        for _ in range(STARTS_WITHIN_S * 10):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                return
            time.sleep(0.1)
        raise AssertionError(f"the master does not listen: see {self._scratch}")


def _end(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
