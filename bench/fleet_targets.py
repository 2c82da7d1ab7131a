"""What is promised of many nodes, and whether it holds."""

from typing import Any

from targets import Check, at


def _wrong(results: dict[str, Any]) -> int | None:
    """What the questions about a fleet got wrong, with truths planted and with none."""
    found = [at(results, "fleet", "result", w, "wrong") for w in ("planted", "nothing_planted")]
    return None if None in found else sum(found)


FLEET_TARGETS: tuple[Check, ...] = (
    (
        "opening 1,000 nodes, CPU-s",
        "printed",
        lambda r: at(r, "fleet", "result", "planted", "containers", "open_cpu_s"),
        lambda _: True,
    ),
    (
        "the same, and counting their containers",
        "printed",
        lambda r: at(r, "fleet", "result", "planted", "containers", "cpu_s"),
        lambda _: True,
    ),
    (
        "truths planted in 1,000 nodes and not found, or found and not planted",
        "0",
        _wrong,
        lambda v: v == 0,
    ),
    (
        "top_kernels of a day of 1,000 nodes by the minute, one process, CPU-s",
        "<= 10",
        lambda r: at(r, "fleet_day", "result", "top_kernels", "cpu_s"),
        lambda v: v <= 10,
    ),
    (
        "gpu_use, the same",
        "<= 10",
        lambda r: at(r, "fleet_day", "result", "gpu_use", "cpu_s"),
        lambda v: v <= 10,
    ),
    *(
        (
            f"{what}, CPU time of slow_calls over 50 nodes' rows, over that of 8 nodes'",
            "printed",
            lambda r, way=way: at(r, "spark", "result", f"{way}_cpu_growth"),
            lambda _: True,
        )
        for way, what in (("one_process", "one process"), ("spark", "Spark with two workers"))
    ),
    *(
        (
            f"{what}, rows per second of CPU time, 50 nodes",
            "printed",
            lambda r, way=way: at(r, "spark", "result", "50_nodes", way, "rows_per_cpu_s"),
            lambda _: True,
        )
        for way, what in (("one_process", "one process"), ("spark", "Spark with two workers"))
    ),
    (
        "Spark with two workers, wall time over that of one process, 50 nodes",
        "printed",
        lambda r: at(r, "spark", "result", "spark_over_one_process", 1),
        lambda _: True,
    ),
)
