"""How fast a question over rows of many nodes is on Spark, against one process.

    python bench/spark.py RECORDING [--nodes 8 50] [--times 23]

Calls of the recording, so many times after each other, are the rows of each node (``fleet.py``).
Spark is a master with two workers of one CPU each, on loopback; its application and its Python are
warm. One process has as many threads as there are CPUs. Runs take turns; the best of three counts.
Where others use the machine, too, CPU seconds tell more: of Spark, those of tasks and driver.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from fleet import Recording, fill

from cotenant.fleet.asking import open_fleet
from cotenant.fleet.runner import Runner
from cotenant.fleet.spark import spark
from cotenant.query.engine.session import QueryLimits, Session
from cotenant.query.questions.loader import find

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.spark.cluster import ROOT, Cluster

QUESTION: Final = "slow_calls"
RUNS: Final = 3
KEPT: Final = ("containers", "sessions", "cuda_events", "nccl_events")


def repeated(recording: Recording, times: int) -> Recording:
    """The same calls again and again, one recording after the other."""
    calls = recording.rows["cuda_events"]
    at = calls.column("timestamp_ns")
    took_ns = pc.max(at).as_py() - pc.min(at).as_py() + 1
    place = calls.column_names.index("timestamp_ns")
    turns = [calls.set_column(place, "timestamp_ns", pc.add(at, turn * took_ns))
             for turn in range(times)]  # fmt: skip
    recording.rows = {name: recording.rows[name] for name in KEPT}
    recording.rows["cuda_events"] = pa.concat_tables(turns)
    return recording


def one_process(store: Path) -> Any:
    with Session(store) as session:
        return session.ask(find(QUESTION).render()).rows()


def on_spark(store: Path, runner: Runner) -> Any:
    question = find(QUESTION)
    window = {"nodes": (), "from_ns": None, "to_ns": None, "limits": QueryLimits()}
    fleet = open_fleet(store, str(store), runner, lambda *_: None, window=window)
    return fleet.ask(question.render(), question.cuts).rows()


def compared(store: Path, runner: Runner, cluster: Cluster, rows: int) -> dict[str, Any]:
    """Both in turn, on the same store."""
    ways: dict[str, Callable[[], Any]] = {
        "one_process": lambda: one_process(store),
        "spark": lambda: on_spark(store, runner),
    }
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    answers = {}
    for _ in range(RUNS):
        for name, way in ways.items():
            began, cpu = time.monotonic(), time.process_time() + cluster.cpu_s()
            answers[name] = way()
            spent = time.process_time() + cluster.cpu_s() - cpu
            runs[name].append({"wall_s": time.monotonic() - began, "cpu_s": spent})
    told: dict[str, Any] = {"same_answer": answers["spark"] == answers["one_process"]}
    for name, found in runs.items():
        least = {key: min(run[key] for run in found) for key in ("wall_s", "cpu_s")}
        told[name] = {key: round(value, 3) for key, value in least.items()}
        told[name] |= {"rows_per_s": round(rows / least["wall_s"]),
                       "rows_per_cpu_s": round(rows / least["cpu_s"])}  # fmt: skip
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("recording", type=Path)
    parser.add_argument("--nodes", type=int, nargs=2, default=(8, 50))
    parser.add_argument("--times", type=int, default=23)
    args = parser.parse_args()
    recording = repeated(Recording(args.recording), args.times)
    each = recording.rows["cuda_events"].num_rows
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT)}
    place = Path(tempfile.mkdtemp(prefix="cotenant-spark-"))
    result: dict[str, Any] = {"question": QUESTION, "rows_per_node": each}
    try:
        for nodes in args.nodes:
            fill(recording, place / str(nodes), nodes)
        with Cluster(place) as cluster, spark(cluster.master) as runner:
            on_spark(place / str(args.nodes[0]), runner)  # Workers start their Python.
            found = [compared(place / str(n), runner, cluster, n * each) for n in args.nodes]
    finally:
        shutil.rmtree(place)
    result |= {f"{n}_nodes": each for n, each in zip(args.nodes, found, strict=True)}
    for way in ("one_process", "spark"):
        for what in ("wall", "cpu"):
            small, large = (each[way][f"{what}_s"] for each in found)
            result[f"{way}_{what}_growth"] = round(large / small, 2)
    small, large = (each["spark"]["wall_s"] / each["one_process"]["wall_s"] for each in found)
    result |= {"spark_over_one_process": [round(small, 2), round(large, 2)]}
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
