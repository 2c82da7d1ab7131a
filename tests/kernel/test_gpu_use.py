"""GPU time, work and ranks of ten tenants against the device's own account: half wait seldom."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cotenant.query.engine.session import Session
from cotenant.query.questions.loader import find
from tests.kernel.conftest import Cgroup, record
from tests.kernel.orders import orders
from tests.kernel.script import WAIT_BY, Script, warm
from tests.kernel.test_device_time import length

SECONDS = float(os.environ.get("COTENANT_RECORDED_S", "12"))
MS = 1_000_000

# Kernel, its time alone, how often it is launched in a step, and the pause after a step; then
# after how many steps the thread waits, and by what.
TENANTS: dict[str, tuple[str, float, int, float, int, str]] = {
    "trains": ("gemm", 4 * MS, 5, 0.02, 1, "stream"),
    "serves": ("decode", 1.3 * MS, 3, 0.05, 1, "event"),
    "copies": ("gemm", 4 * MS, 1, 0.1, 1, "copy"),
    "queries": ("decode", 1.3 * MS, 1, 0.2, 1, "query"),
    "idles": ("decode", 1.3 * MS, 1, SECONDS / 3, 1, "context"),
    "streams": ("gemm", 4 * MS, 3, 0.05, 0, "never"),
    "seldom": ("decode", 1.3 * MS, 2, 0.02, 150, "stream"),
    "games": ("decode", 1.3 * MS, 1, 1.0, 0, "never"),
    "pings": ("touch", 0.2 * MS, 1, 0.5, 0, "never"),
    "touches": ("touch", 0.2 * MS, 2, 0.05, 1, "stream"),
}

PLAYER = """
name, times, pause, every, style, seconds = {values!r}
from ctypes import c_size_t
context, module = start()
call("cuDeviceGetUuid_v2", ctypes.create_string_buffer(16), 0)
kernel = out("cuModuleGetFunction", module, name.encode())
memory = out("cuMemAlloc_v2", c_size_t(1 << 20))
host = ctypes.create_string_buffer(4096)
stream = out("cuStreamCreate", 0 if style == "copy" else 1)
event = out("cuEventCreate", 2)
began, step = time.monotonic(), 0
while time.monotonic() < began + seconds:
    step += 1
    launch(kernel, stream, times)
    if every and step % every == 0:
        wait_by(style, stream, event, host, memory)
    time.sleep(pause)
"""


def truth(log: Path) -> tuple[int, int]:
    """What the device took for a tenant, and how many kernels ran."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    ran = [line for line in lines if "device_end" in line]
    return (
        length((line["device_start"], line["device_end"]) for line in ran),
        sum(line["op"] == "launch" for line in ran),
    )


def ranks(values: list[float]) -> list[int]:
    order = sorted(range(len(values)), key=values.__getitem__)
    return [order.index(n) for n in range(len(values))]


def correlation(one: list[float], other: list[float]) -> float:
    """Spearman's."""
    squares = sum((a - b) ** 2 for a, b in zip(ranks(one), ranks(other), strict=True))
    return 1 - 6 * squares / (len(one) * (len(one) ** 2 - 1))


def test_ten_tenants_are_told_apart_by_what_they_did(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path
) -> None:
    scripts, groups = {}, {}
    with record(store) as recording:
        warm(recording, cgroups())
        for name, (kernel, work, times, pause, every, style) in TENANTS.items():
            groups[name] = cgroups()
            values = (kernel, times, pause, every, style, SECONDS)
            scripts[name] = Script(
                groups[name],
                WAIT_BY + PLAYER.format(values=values),
                COTENANT_SIM_LOG=str(tmp_path / f"{name}.jsonl"),
                COTENANT_SIM_KERNEL_NS=f"{kernel}={round(work)}",
                COTENANT_SIM_SLOWDOWN="1.2",
                COTENANT_SIM_INIT_MS="0",
            )
        for script in scripts.values():
            script.end()
    taken, alone = {}, {}
    for name, (_, work, *_) in TENANTS.items():
        taken[name], launches = truth(tmp_path / f"{name}.jsonl")
        alone[name] = launches * work
    shown = {f"/{group.name}": name for name, group in groups.items()}
    with Session(store) as session:
        rows = session.ask(find("gpu_use").render()).rows()
    found: dict[str, dict[str, Any]] = {
        shown[row["tenant"]]: row for row in rows if row["tenant"] in shown
    }
    for name, row in found.items():
        print(
            f"{name}: {row['gpu_time']} [{row['source']}], truly {taken[name] / 1e6:.1f} ms; work "
            f"{row['work_ns'] / 1e6:.1f} ms, truly {alone[name] / 1e6:.1f}; "
            f"queued {row['queued_ns'] / 1e6:.0f} ms; low {row['gpu_time_low_ns'] / 1e6:.1f} ms"
        )
    assert found.keys() == TENANTS.keys()
    for name, row in found.items():
        assert row["gpu_time_low_ns"] <= taken[name] <= row["gpu_time_high_ns"], name
    names = list(TENANTS)
    work = [found[name]["work_ns"] for name in names]
    assert correlation(work, [alone[name] for name in names]) >= 0.95
    for surface, tenants in orders(store).items():
        order = [shown[tenant] for tenant in tenants if tenant in shown]
        print(surface, *order)
        large = [n for n, name in enumerate(order) if alone[name] > 1e9]
        small = [n for n, name in enumerate(order) if alone[name] < 1e7]
        assert surface == "explain" or (large and small), surface
        assert max(large, default=-1) < min(small, default=len(order)), (surface, order)
    (row,) = {(row["idle_share"],) for row in found.values()}
    assert abs(sum(row["share"] for row in rows if row["gpu"]) + row[0] - 1) < 1e-6
