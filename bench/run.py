"""Every measurement in turn: results as JSON, a table, and plots, in docs/bench/.

    python bench/run.py [--quick] [NAME ...]

NAMEs are those of the scripts beside this one; without any, all are run. What was measured before
and is not measured now stays as it is.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import svg
from fleet_targets import FLEET_TARGETS
from targets import TARGETS, at

HERE = Path(__file__).parent
OUT = HERE.parent / "docs" / "bench"
RESULTS = OUT / "results.json"


@dataclass(frozen=True)
class Script:
    """One measurement: how it is run, in full and quickly."""

    name: str
    full: tuple[str, ...] = ()
    quick: tuple[str, ...] = ()


# GPU events alone: what else happens on the host meanwhile is not what is measured.
GPU = ("--events", "cuda,nccl")
STORM = ("--budget", "off", *GPU)
SCRIPTS = (
    Script("probe"),
    Script("storm", (*STORM, "--seconds", "30"), (*STORM, "--seconds", "8")),
    Script("identity", GPU, (*GPU, "--calls", "1000003")),
    Script("blocks", (), ("--seconds", "6")),
    Script("slowdown", ("--pairs", "7"), ("--pairs", "3", "--seconds", "3")),
    Script("query", (), ("--rows", "2000000", "--runs", "3", "--sqlite-rows", "100000")),
    Script("tenants", (), ("--seconds", "5")),
    Script("switches"),
    Script("naming", (), ("--containers", "11")),
    Script("fresh", (), ("--seconds", "5")),
    Script("kills", ("--kills", "100"), ("--kills", "7")),
    Script("page"),
    Script("rounds", ("--rounds", "200"), ("--rounds", "10")),
    Script("busy", (), ("--demos", "1")),
    Script("forks", (), ("--rounds", "1", "--tries", "20")),
    Script("neighbours", (), ("--pairs", "2")),
    Script("kernel_events", (), ("--pairs", "3")),
    Script("births", (), ("--seconds", "8")),
    Script("peers", (), ("--rounds", "1")),
    Script("torch_names"),
    Script("confidence", (), ("100", "20")),
    Script("scale", (), ("--rows", "1000000", "--larger", "10000000")),
    Script("week", (), ("--days", "1")),
    Script("ship"),
    Script("fleet_day", (), ("--nodes", "50")),
)


def machine() -> dict[str, Any]:
    """Where the numbers are from."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((x.partition(":")[2].strip() for x in lines if x.startswith("model name")), "?")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": model,
        "cpus": os.cpu_count(),
        "memory_gb": round(memory / 2**30),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "virtual": "hypervisor" in next((x for x in lines if x.startswith("flags")), ""),
        "load_before": round(os.getloadavg()[0], 2),
    }


def measure(script: Script, *, quick: bool) -> Any:
    """The script's own JSON; its last lines where it failed."""
    words = [sys.executable, str(HERE / f"{script.name}.py")]
    words += script.quick if quick else script.full
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    text = done.stdout
    starts = [at for at in (text.find("{"), text.find("[\n")) if at >= 0]
    if done.returncode or not starts:
        return {"failed": (done.stderr or done.stdout).strip().splitlines()[-3:]}
    return json.JSONDecoder().raw_decode(text[min(starts) :])[0]


# Pairs that differ by more than this among themselves cannot tell a slowdown of 1 %.
RESOLVES = 0.02


def unresolved(results: dict[str, Any], what: str) -> str | None:
    """Why a figure decides nothing, where its own spread is wider than what it is to tell."""
    if not what.endswith("median of pairs"):
        return None
    sort = "cpu" if "processor" in what else "wall"
    spread = at(results, "slowdown", "result", 1, f"{sort}_ratio_range")
    if spread is None or spread[1] - spread[0] <= RESOLVES:
        return None
    return f"**not shown**: pairs range from {spread[0]} to {spread[1]}"


def table(results: dict[str, Any]) -> str:
    """The promises and what was measured."""
    lines = ["| What | Target | Measured | |", "|---|---|---|---|"]
    for what, target, find, holds in (*TARGETS, *FLEET_TARGETS):
        value = find(results)
        shown = "not measured" if value is None else f"{value:,.4g}" if value else "0"
        verdict = "holds" if value is not None and holds(value) else "**falls short**"
        verdict = "" if value is None or target == "printed" else verdict
        verdict = (value is not None and unresolved(results, what)) or verdict
        lines.append(f"| {what} | {target} | {shown} | {verdict} |")
    return "\n".join(lines)


CONDITIONS = {
    "recorded": "recorded",
    "budget_off": "budget off",
    "bpftrace": "bpftrace",
    "peer": "peer",
}


def grid(what: str, heads: Iterable[str], rows: dict[str, list[str]]) -> str:
    """A table below what it shows: a row for each name."""
    heads = [*heads]
    lines = [what, "", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    lines += [f"| {' | '.join([name, *cells])} |" for name, cells in rows.items()]
    return "\n".join(lines) + "\n\n"


def neighbours(results: dict[str, Any]) -> str:
    """Programs without a GPU: speeds, of that without a recording."""
    programs = at(results, "neighbours", "result", "programs")
    if not programs:
        return ""
    there = {
        name: head for name, head in CONDITIONS.items() if any(name in p for p in programs.values())
    }
    what = (
        "Speed of programs without a GPU beside a recording, of that without: the median of pairs, "
        "95 % of such medians, what it did in a second of its CPU time, and the part of a CPU that "
        "the agent takes. bpftrace counts switches and messages by cgroup."
    )
    rows = {
        program: [_neighbour(found[name]) if name in found else "" for name in there]
        for program, found in programs.items()
    }
    return grid(what, ["Program", *there.values()], rows)


def _neighbour(found: dict[str, Any]) -> str:
    low, high = found["interval"]
    share = 100 * found["agent_cpu_share"]
    return (
        f"{found['ratio']:.3f} ({low:.3f} to {high:.3f}), {found['cpu_ratio']:.3f}, {share:.1f} %"
    )


PEERS = {
    "a launch in the loop, mean, us": "mean_us",
    "the same, 99th percentile, us": "p99_us",
    "one per 200 us, median, us": "paced_median_us",
    "launches by tenant": "launches",
    "launches with the kernel's name": "named",
    "CPU-s per million launches": "cpu_s_per_million",
    "bytes per row": "bytes_per_row",
}


def peers(results: dict[str, Any]) -> str:
    """A launch beside each recorder."""
    found = at(results, "peers", "result", "beside")
    if not found:
        return ""
    made = at(results, "peers", "result", "made")
    what = (
        f"Three tenants launch through the runtime, {made:,} times in all, beside each recorder in "
        "turn: medians of the rounds. cotenant probes driver and runtime, and stores a row with "
        "tenant, kernel, stream and duration; bpftrace probes `cuLaunchKernel` alone, knows cgroup "
        "and thread but no name, and prints instead of storing. Single-stepped probes, as bpftrace "
        "may place them, cost less without a hypervisor."
    )
    rows = {
        name: [f"{one[key]:,g}" if key in one else "" for one in found.values()]
        for name, key in PEERS.items()
    }
    return grid(what, ["", *found], rows)


PHASES = {
    "start": "a recording starts",
    "placed": "a library gets its probes",
    "removed": "a library loses its probes",
    "stop": "a recording stops",
}


def forks(results: dict[str, Any]) -> str:
    """For how long no process of the host can fork."""
    found = at(results, "forks", "result", "mappers")
    if not found:
        return ""
    what = (
        "Forks of the host wait while probes come or go: the longest fork of all rounds, and what "
        "all forks of a round took beyond a millisecond each, in ms."
    )
    rows = {
        f"{int(mappers):,}": [f"{one[p]['longest_ms']:g}; {one[p]['waited_ms']:g}" for p in PHASES]
        for mappers, one in found.items()
    }
    return grid(what, ["Processes that map the driver", *PHASES.values()], rows)


def plots(results: dict[str, Any]) -> list[str]:
    """Draw what there is; the names of the pictures."""
    drawn = []
    blocks = at(results, "blocks", "result")
    if isinstance(blocks, list):
        values = [
            (f"{b['spin_us']} us, {b['layer']}", max(0, 100 * (b["cpu_ratio"] - 1))) for b in blocks
        ]
        title = "slowdown of a launching thread, %, by CPU time between launches"
        svg.bars(OUT / "slowdown.svg", title, values, 1)
        drawn.append("slowdown")
    tenants = at(results, "tenants", "result")
    if isinstance(tenants, list):
        shares = [(f"{t['tenants']} tenants", 100 * t["agent_cpu_share"]) for t in tenants]
        svg.bars(OUT / "tenants.svg", "agent, % of one CPU, same rate of events in all", shares)
        memory = [(f"{t['tenants']} tenants", t["agent_peak_pss_mb"]) for t in tenants]
        svg.bars(OUT / "memory.svg", "agent, MB of PSS", memory, 256)
        drawn += ["tenants", "memory"]
    sizes = at(results, "soak", "result", "sizes")
    if sizes:
        points = [(s["seconds"], s["own_mb"]) for s in sizes]
        svg.line(OUT / "soak.svg", "agent, MB of its own, a new container each second", points)
        drawn.append("soak")
    return drawn


def page(results: dict[str, Any]) -> str:
    """docs/bench/README.md."""
    there = results["machine"]
    pictures = "\n".join(f"![{name}]({name}.svg)" for name in plots(results))
    when = sorted({each["when"] for key, each in results.items() if key != "machine"})
    minutes = at(results, "soak", "result", "minutes")
    soak = f" The soak took {minutes:g} minutes." if minutes else ""
    return (
        "# What it costs\n\n"
        f"Measured by `make bench` ({when[0]} to {when[-1]} UTC) on {there['cpus']} CPUs "
        f"({there['cpu']}{', virtual' if there['virtual'] else ''}), {there['memory_gb']} GB, "
        f"Linux {there['kernel']}, Python {there['python']}. Ratios are of runs on the same "
        "machine in one go; absolute times are this machine's. Load average before each run is "
        "in [results.json](results.json) with everything else that was measured; how is in "
        f"[bench/README.md](../../bench/README.md).{soak}\n\n"
        f"{table(results)}\n\n{peers(results)}{neighbours(results)}{forks(results)}{pictures}\n"
    )


def main() -> None:
    """Measure what is asked for, and write it down."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--put", nargs=2, metavar=("NAME", "FILE"), help="take a result from a file"
    )
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    results["machine"] = machine()
    now = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    if args.put:
        taken = json.loads(Path(args.put[1]).read_text())
        results[args.put[0]] = {"when": now, "quick": args.quick, "result": taken}
    chosen = [] if args.put else [s for s in SCRIPTS if not args.names or s.name in args.names]
    for script in chosen:
        load = round(os.getloadavg()[0], 2)
        found = measure(script, quick=args.quick)
        results[script.name] = {"when": now, "quick": args.quick, "load": load, "result": found}
        print(f"{script.name}: {json.dumps(found)[:300]}", flush=True)
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    (OUT / "README.md").write_text(page(results))


if __name__ == "__main__":
    main()
