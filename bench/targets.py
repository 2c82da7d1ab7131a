"""What the measurements are to show: each figure, and what it has to be."""

from collections.abc import Callable
from statistics import median
from typing import Any


def at(results: dict[str, Any], *path: Any) -> Any:
    """What is there in the results; None if nothing is."""
    for key in path:
        try:
            results = results[key]
        except (KeyError, IndexError, TypeError):
            return None
    return results


def _block(results: dict[str, Any], layer: str) -> dict[str, Any]:
    """The blocks with 200 us of work before each launch."""
    found = at(results, "blocks", "result")
    for each in found if isinstance(found, list) else []:
        if each["layer"] == layer and each["spin_us"] == 200:
            return dict(each)
    return dict.fromkeys(("cpu_ratio", "agent_share_of_machine"))


def _scaled(results: dict[str, Any], what: str) -> float | None:
    """The most of all questions on the larger store: of this figure."""
    asked = at(results, "scale", "result", 1, "questions")
    return asked and max(e[what] for name, e in asked.items() if what in e and name != "explain")


# Questions that read sums of seconds and no rows, nor spans.
ROLLUP_READERS = ("memory_held", "node_coverage", "rightsize")


def _growth(results: dict[str, Any], *names: str) -> float | None:
    """By how much the question grows most, of these or those with a tenth of the promised time."""
    small, large = (at(results, "scale", "result", n, "questions") for n in (0, 1))
    if not small or not large:
        return None
    least = large["promised"]["cpu_s"] / 10
    there = names or [name for name, one in large.items() if one.get("cpu_s", 0) > least]
    both = [name for name in there if "cpu_s" in small.get(name, {}) and "cpu_s" in large[name]]
    return max(large[name]["cpu_s"] / small[name]["cpu_s"] for name in both)


def _of_neighbours(results: dict[str, Any], worst: Callable[..., float], what: str) -> Any:
    """The worst of all programs, recorded by default."""
    programs = at(results, "neighbours", "result", "programs")
    return worst(one["recorded"][what] for one in programs.values()) if programs else None


def _dearer(results: dict[str, Any], *what: str) -> float | None:
    """By how many microseconds a recording makes these dearer, the most of them."""
    each = at(results, "kernel_events", "result", "each")
    return each and max(each[name]["dearer_us"] for name in what)


def _of_births(results: dict[str, Any]) -> int | None:
    """What is missing of a storm of programs."""
    found = at(results, "births", "result")
    return found and found["cgroups_missing"] + found["counts_off"] + found["facts_lost"]


def _grown(results: dict[str, Any], *what: str) -> float | None:
    """By how much these grew over the soak, the worst of them.

    Single moments differ by what was freed and not given back yet: the middle one of the second
    sixth, when caches are warm, is compared with that of the last.
    """
    sizes = at(results, "soak", "result", "sizes")
    if not sizes:
        return None
    sixth = len(sizes) // 6
    early, late = sizes[sixth : 2 * sixth], sizes[-sixth:]
    return max(
        round(median(s[each] for s in late) - median(s[each] for s in early), 1) for each in what
    )


def _unseen(results: dict[str, Any]) -> float | None:
    """The share of calls in brief containers that are no rows, and were neither lost nor shed."""
    made = at(results, "soak", "result", "calls_made_in_containers")
    stored = at(results, "soak", "result", "calls_stored_of_them")
    return None if made is None else 1 - stored / made


def _incomplete(results: dict[str, Any]) -> int | None:
    """Rounds in which a call is missing."""
    made = at(results, "rounds", "result", "rounds")
    return None if made is None else made - at(results, "rounds", "result", "complete")


Check = tuple[str, str, Callable[[dict[str, Any]], Any], Callable[[Any], bool]]

# What is promised, what it must be, where the figure is, and whether it holds.
TARGETS: tuple[Check, ...] = (
    (
        "a recorded driver call, over an empty session probe",
        "<= 1.6",
        lambda r: at(r, "probe", "result", "driver_over_empty"),
        lambda v: v <= 1.6,
    ),
    (
        "both layers recorded, over an empty session probe",
        "<= 3",
        lambda r: at(r, "probe", "result", "both_layers_over_empty"),
        lambda v: v <= 3,
    ),
    (
        "lost of one thread flat out, budget off",
        "0",
        lambda r: at(r, "storm", "result", "lost"),
        lambda v: v == 0,
    ),
    (
        "events a second meanwhile",
        "printed",
        lambda r: at(r, "storm", "result", "calls_per_s"),
        lambda v: True,
    ),
    (
        "agent, CPU-s per million events, GPU events alone",
        "<= 0.6",
        lambda r: at(r, "storm", "result", "agent_cpu_s_per_million"),
        lambda v: v <= 0.6,
    ),
    (
        "agent, MB of PSS at most",
        "<= 256",
        lambda r: at(r, "storm", "result", "agent_peak_pss_mb"),
        lambda v: v <= 256,
    ),
    (
        "launches that do not add up, of 100 million of three tenants, one of which storms",
        "0",
        lambda r: at(r, "identity", "result", "off", "off"),
        lambda v: v == 0,
    ),
    (
        "the same: launches of the other two without a row",
        "0",
        lambda r: at(r, "identity", "result", "off", "neighbours_lack"),
        lambda v: v == 0,
    ),
    (
        "the same: MB of PSS of the agent at most",
        "<= 256",
        lambda r: at(r, "identity", "result", "off", "agent_peak_pss_mb"),
        lambda v: v <= 256,
    ),
    (
        "the same with the default budget: launches that do not add up",
        "0",
        lambda r: at(r, "identity", "result", "default", "off"),
        lambda v: v == 0,
    ),
    (
        "the same with the default budget: launches of the other two without a row",
        "0",
        lambda r: at(r, "identity", "result", "default", "neighbours_lack"),
        lambda v: v == 0,
    ),
    (
        "the same with the default budget: MB of PSS of the agent at most",
        "<= 256",
        lambda r: at(r, "identity", "result", "default", "agent_peak_pss_mb"),
        lambda v: v <= 256,
    ),
    (
        "bytes per event on disk, mixed rows",
        "<= 16",
        lambda r: at(r, "query", "result", "store", "bytes_per_row"),
        lambda v: v <= 16,
    ),
    (
        "slowdown of a launching thread, 200 us per launch, probed over plain blocks",
        "< 1.01",
        lambda r: _block(r, "driver")["cpu_ratio"],
        lambda v: v < 1.01,
    ),
    (
        "the same with both layers",
        "< 1.02",
        lambda r: _block(r, "both")["cpu_ratio"],
        lambda v: v < 1.02,
    ),
    (
        "the agent's share of the machine meanwhile",
        "printed",
        lambda r: _block(r, "driver")["agent_share_of_machine"],
        lambda v: True,
    ),
    (
        "slowdown by processor time, 200 us per launch, median of pairs",
        "< 1.01",
        lambda r: at(r, "slowdown", "result", 1, "cpu_ratio"),
        lambda v: v < 1.01,
    ),
    (
        "slowdown by wall time, 200 us per launch, median of pairs",
        "< 1.01",
        lambda r: at(r, "slowdown", "result", 1, "wall_ratio"),
        lambda v: v < 1.01,
    ),
    (
        "first query, over bare DuckDB",
        "<= 1.3",
        lambda r: at(r, "query", "result", "query", "session_over_bare"),
        lambda v: v <= 1.3,
    ),
    (
        "first query, SQLite over ours",
        ">= 20",
        lambda r: at(r, "query", "result", "query", "sqlite_over_session"),
        lambda v: v >= 20,
    ),
    (
        "the slowest of all named questions on 100 M rows, over the first query, by CPU time",
        "<= 3",
        lambda r: _scaled(r, "over_promised"),
        lambda v: v <= 3,
    ),
    (
        "explain, the same",
        "<= 10",
        lambda r: at(r, "scale", "result", 1, "questions", "explain", "over_promised"),
        lambda v: v <= 10,
    ),
    (
        "MB of memory of any question on 100 M rows, at most",
        "<= 1024",
        lambda r: _scaled(r, "peak_mb"),
        lambda v: v <= 1024,
    ),
    (
        "growth of the question that grows most, from 10 M to 100 M rows",
        "<= 12",
        _growth,
        lambda v: v <= 12,
    ),
    (
        "the same, of those that read rollups alone",
        "<= 2",
        lambda r: _growth(r, *ROLLUP_READERS),
        lambda v: v <= 2,
    ),
    (
        "seconds until the page of 100 M rows first paints",
        "<= 2",
        lambda r: at(r, "scale", "result", 1, "page", "first_paint_s"),
        lambda v: v <= 2,
    ),
    (
        "the same: until every panel has its answer",
        "<= 10",
        lambda r: at(r, "scale", "result", 1, "page", "panels_s"),
        lambda v: v <= 10,
    ),
    *(
        (
            f"{name} of a week of 20 tenants, seconds",
            "<= 2",
            lambda r, name=name: at(r, "week", "result", "asked", name, "wall_s"),
            lambda v: v <= 2,
        )
        for name in ("top_kernels", "gpu_use", "rightsize", "overview")
    ),
    (
        "minute rollups that a node with 3 tenants sends in a day, MB",
        "<= 2",
        lambda r: at(r, "ship", "result", "minute_rollups_sent_mb"),
        lambda v: v <= 2,
    ),
    (
        "the same, and all else that is sent by default, MB",
        "printed",
        lambda r: at(r, "ship", "result", "sent_mb"),
        lambda _: True,
    ),
    (
        "age of the newest row that four readers see, seconds at most",
        "<= 2",
        lambda r: at(r, "fresh", "result", 1, "max_s"),
        lambda v: v <= 2,
    ),
    (
        "seconds of rows missing after kill -9, at most",
        "<= 1",
        lambda r: at(r, "kills", "result", "most_seconds_missing"),
        lambda v: v <= 1,
    ),
    (
        "BPF objects left after kill -9",
        "0",
        lambda r: at(r, "kills", "result", "bpf_objects_left"),
        lambda v: v == 0,
    ),
    (
        "recordings of a real runtime's 17 calls that lack one, half of them on a busy machine",
        "0",
        _incomplete,
        lambda v: v == 0,
    ),
    (
        "calls of the demo beside 12 busy loops that are neither a row nor in a hole that is told",
        "0",
        lambda r: at(r, "busy", "result", "untold"),
        lambda v: v == 0,
    ),
    (
        "the same: seconds from the mapping of a library to its probes, at most",
        "< 1",
        lambda r: at(r, "busy", "result", "worst_hole_s"),
        lambda v: v < 1,
    ),
    (
        "the same: the median of them",
        "printed",
        lambda r: at(r, "busy", "result", "median_hole_s"),
        lambda v: True,
    ),
    (
        "longest fork while a recording starts and 1,000 processes map the driver, ms",
        "printed",
        lambda r: at(r, "forks", "result", "mappers", "1000", "start", "longest_ms"),
        lambda v: True,
    ),
    (
        "longest launch while a recording starts, ms",
        "printed",
        lambda r: at(r, "forks", "result", "launch", "start_longest_ms"),
        lambda v: True,
    ),
    (
        "memory locks taken around the moment of probing that forks waited for, of 300",
        "<= 3",
        lambda r: at(r, "forks", "result", "random", "waited"),
        lambda v: v <= 3,
    ),
    (
        "programs without a GPU: speed of the slowest beside a recording, median of pairs",
        ">= 0.97",
        lambda r: _of_neighbours(r, min, "ratio"),
        lambda v: v >= 0.97,
    ),
    (
        "the same: CPUs that the agent takes, at most",
        "<= 0.03",
        lambda r: _of_neighbours(r, max, "agent_cpu_share"),
        lambda v: v <= 0.03,
    ),
    (
        "a message that is only counted, us dearer",
        "<= 0.1",
        lambda r: _dearer(r, "message"),
        lambda v: v <= 0.1,
    ),
    *(
        (
            f"{name} of a program without a GPU, us dearer",
            "<= 5",
            lambda r, what=what: _dearer(r, what),
            lambda v: v <= 5,
        )
        for name, what in (
            ("a mapping of code", "map"),
            ("a thread, from its start to its end,", "thread"),
            ("a child, from fork to exit,", "fork"),
            ("a program, from fork and exec to exit,", "exec"),
        )
    ),
    (
        "programs that a storm of a minute starts, each second",
        "printed",
        lambda r: at(r, "births", "result", "programs_per_s"),
        lambda v: True,
    ),
    (
        "the same: new cgroups, forks, execs, exits and facts that are missing",
        "0",
        _of_births,
        lambda v: v == 0,
    ),
    (
        "soak, a new container each second: BPF links, maps, descriptors, more at the end",
        "<= 0",
        lambda r: _grown(r, "links", "maps", "fds"),
        lambda v: v <= 0,
    ),
    (
        "the same: MB of its own memory (no file's), more at the end",
        "<= 16",
        lambda r: _grown(r, "own_mb"),
        lambda v: v <= 16,
    ),
    (
        "the same: share of the new containers' calls that came before the probes",
        "printed",
        _unseen,
        bool,
    ),
)
