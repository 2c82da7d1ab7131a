"""The demo of ``make record``: the two promised queries beside what its tenants say they did."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cotenant.query.engine.session import Session
from cotenant.query.questions.promises import promise
from vm.guest.host import COTENANT
from vm.guest.tenants import compared, demangled

_NO_ROW = ("GroupStart", "GroupSimulateEnd", "CommUserRank", "CommCount")


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Its exit code, and both queries compared."""
    store = Path("/root/demo")
    done = subprocess.run(
        [*COTENANT, "demo", "--for", "20s", "--store", str(store)],
        capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    said = {"code": done.returncode, "errors": done.stderr[-1500:]}
    if done.returncode:
        return said
    with Session(store) as session:
        kernels = session.ask(promise("kernels")).table.to_pylist()
        nccl = session.ask(promise("nccl")).table.to_pylist()
    truth = store.with_name(store.name + ".sim") / "truth"
    return said | {"compared": list(_compare(kernels, nccl, truth))}


def _compare(
    kernels: list[dict[str, Any]], nccl: list[dict[str, Any]], truth: Path
) -> Iterator[dict[str, Any]]:
    for tenant in sorted(truth.iterdir()):
        cgroup = f"/{tenant.name}.demo"
        calls = [json.loads(line) for log in tenant.glob("*.jsonl") for line in log.open()]
        launched = demangled(Counter(c["kernel"] for c in calls if c["op"] == "launch"))
        told = Counter({
            row["kernel_name"]: row["launches"]
            for row in kernels
            if row["container_id"].endswith(cgroup) and not row["kernel_name"].startswith("[")
        })  # fmt: skip
        yield compared("promises", f"launches of {tenant.name}", launched, demangled(told))
        done = Counter(c["nccl"] for c in calls if c["op"] == "nccl" and c["nccl"] not in _NO_ROW)
        stored = {r["op"]: r["calls"] for r in nccl if r["container_id"].endswith(cgroup)}
        yield compared("promises", f"NCCL calls of {tenant.name}", dict(sorted(done.items())),
                       dict(sorted(stored.items())))  # fmt: skip
