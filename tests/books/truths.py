"""Equations between a recording and what its clients logged."""

import json
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from cotenant.query.questions.loader import questions
from tests.books.equations import Books, Imbalance
from tests.books.workloads import Tenant

Calls = list[dict[str, Any]]


def logged(tenant: Tenant) -> Calls:
    """Every call of the tenant's processes, and the outermost function of each."""
    lines = (line for log in tenant.logs.glob("*.jsonl") for line in log.read_text().splitlines())
    return [json.loads(line) for line in lines]


def _counts(calls: Calls) -> dict[str, int]:
    """What the log says of each number."""
    ran = [call for call in calls if "graph" not in call and call.get("result") == 0]
    copies = [call for call in ran if call["op"] == "memcpy"]
    nccl = [c for c in calls if c["op"] == "nccl" and not c["nccl"].startswith(("Group", "Comm"))]
    return {
        "launches": sum(call["op"] == "launch" for call in ran),
        "copies": len(copies),
        "copied_bytes": sum(call["bytes"] for call in copies),
        "failed": sum(call["op"] in ("launch", "alloc") and call["result"] != 0 for call in calls),
        "collectives": len(nccl),
        "peak_bytes": _peak(calls),
    }


def _peak(calls: Calls) -> int:
    """The most that was held at a time, on all GPUs."""
    held: dict[tuple[int, int], int] = {}
    changes = []
    for call in sorted((c for c in calls if c.get("result") == 0), key=lambda c: c["t_end"]):
        if "Host" in call["api"] or call["op"] not in ("alloc", "free") or "pointer" not in call:
            continue
        key = call["pid"], call["pointer"]
        change = call["bytes"] if call["op"] == "alloc" else -held.pop(key, 0)
        if call["op"] == "alloc":
            held[key] = change
        changes.append(change)
    return max(accumulate(changes), default=0)


# Each number on each surface that has it: SQL for one tenant, named by ``$tenant``.
_OF = "join containers c using (cgroup_id) where c.tenant = $tenant"
SQL = {
    "launches": {
        "rows": f"select sum(weight) from cuda_events {_OF} and op = 'launch' and result = 0",
        "spans": "select sum(launches) from spans where tenant = $tenant",
        "gpu_seconds": f"select sum(launches) from gpu_seconds {_OF}",
        "totals": f"select sum(count) from totals {_OF} and regexp_matches(function, "
        "'^cuLaunch(Kernel|Cooperative)')",
    },
    "copies": {
        "rows": f"select sum(weight) from cuda_events {_OF} and op = 'memcpy' and result = 0",
    },
    "copied_bytes": {
        "rows": f"select sum(bytes * weight) from cuda_events {_OF} and op = 'memcpy'",
    },
    "collectives": {
        "rows": f"select sum(weight) from nccl_events {_OF} "
        "and not regexp_matches(op, '^(Comm|Group)')",
    },
}
ASKED = {
    "launches": (("launch_rate", "launches"), ("device_time", "launches")),
    "copies": (("copies", "copies"),),
    "copied_bytes": (("copies", "total_bytes"),),
    "failed": (("failed_calls", "calls"),),
}


def counts(books: Books, tenants: list[Tenant]) -> Iterator[Imbalance]:
    """Each number, on each surface, is what the clients logged."""
    for tenant in tenants:
        shown = f"/{tenant.group.name}"
        truth = _counts(logged(tenant))
        for number, surfaces in SQL.items():
            for surface, sql in surfaces.items():
                (row,) = books.sql(sql.replace("$tenant", f"'{shown}'"))
                found = int(next(iter(row.values())) or 0)
                wanted = truth[number]
                if (surface, number) == ("totals", "launches"):
                    wanted += _failed_launches(tenant)
                if found != wanted:
                    what = f"{tenant.name}: {found} of {wanted}"
                    yield Imbalance("truth", f"{surface}.{number}", what)
        for number, asked in ASKED.items():
            for question, column in asked:
                rows = [r for r in books.ask(questions()[question]) if r["tenant"] == shown]
                if question == "device_time":
                    rows = [row for row in rows if not row["kernel_name"].startswith("[")]
                if question == "failed_calls":
                    rows = [
                        row for row in rows if row["api"].startswith(("cuLaunch", "cuMemAlloc"))
                    ]
                found = sum(row[column] or 0 for row in rows)
                if found != truth[number]:
                    what = f"{tenant.name}: {found} of {truth[number]}"
                    yield Imbalance("truth", f"{question}.{column}", what)


def _failed_launches(tenant: Tenant) -> int:
    return sum(call["op"] == "launch" and call["result"] != 0 for call in logged(tenant))


def peaks(books: Books, tenants: list[Tenant]) -> Iterator[Imbalance]:
    """The peak of memory is the highest sum of allocations and frees."""
    found: Counter[str] = Counter()
    for row in books.ask(questions()["rightsize"]):
        found[row["tenant"]] = row["gpu_bytes_peak"] or 0
    for tenant in tenants:
        truth = _counts(logged(tenant))["peak_bytes"]
        if found[f"/{tenant.group.name}"] != truth:
            what = f"{tenant.name}: {found[f'/{tenant.group.name}']} of {truth}"
            yield Imbalance("truth", "rightsize.gpu_bytes_peak", what)
