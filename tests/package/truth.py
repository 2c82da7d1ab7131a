"""What the tenants of `cotenant demo` say they did, in the words of the README's two queries."""

import json
import re
from collections import Counter
from pathlib import Path

Counts = Counter[tuple[str, str]]
_STEM = re.compile(r"ncclDevKernel_\w+?(?=\(|24nccl)|[a-z]+_kernel")
_SHOWN = ("alloc", "free", "sync")


def stem(kernel: str) -> str:
    """What a kernel's mangled and demangled names have in common."""
    found = _STEM.search(kernel)
    return found.group() if found else kernel


def operations(directory: Path) -> Counts:
    """By tenant and operation, as the first query counts them."""
    found: Counts = Counter()
    for tenant, call in _calls(directory):
        if call["op"] == "launch":
            found[tenant, stem(call["kernel"])] += 1
        elif call["op"] == "memcpy":
            found[tenant, f"[memcpy {call['direction']}]"] += 1
        elif call["op"] in _SHOWN:
            found[tenant, f"[{call['op']}]"] += 1
    return found


def collectives(directory: Path) -> Counts:
    """By tenant and call, as the second query counts them."""
    return Counter(
        (tenant, call["nccl"]) for tenant, call in _calls(directory) if call["op"] == "nccl"
    )


def _calls(directory: Path) -> list[tuple[str, dict[str, str]]]:
    return [
        (log.parent.name, json.loads(line))
        for log in directory.glob("*/*.jsonl")
        for line in log.read_text().splitlines()
    ]
