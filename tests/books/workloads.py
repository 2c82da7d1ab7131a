"""Random tenants on the stand-in GPU: of each kind at least one, how much of what is a seed's."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cotenant import sim
from tests.kernel.conftest import PATIENCE, Cgroup, sim_environment
from tests.kernel.script import PRELUDE

# Waits by events, small blocking uploads, calls that fail, two GPUs.
EVENTS = """
context, module = start()
kernel, stream = out("cuModuleGetFunction", module, b"by_event"), out("cuStreamCreate", 1)
for step in range(STEPS):
    launch(kernel, stream, 1 + step % 3)
    event = out("cuEventCreate", 0)
    call("cuEventRecord", event, c_void_p(stream))
    call("cuEventSynchronize", event)
    call("cuEventDestroy_v2", event)
    time.sleep(PAUSE)
"""
UPLOADS = """
context, module = start()
kernel, stream = out("cuModuleGetFunction", module, b"uploaded"), out("cuStreamCreate", 1)
memory, host = out("cuMemAlloc_v2", c_uint64(1 << 20)), ctypes.create_string_buffer(4096)
for step in range(STEPS):
    call("cuMemcpyHtoD_v2", memory, host, c_uint64(4096))
    launch(kernel, stream)
    call("cuStreamSynchronize", stream)
    time.sleep(PAUSE)
"""
FAILURES = """
context, module = start()
kernel = out("cuModuleGetFunction", module, b"fails")
for step in range(STEPS):
    launch(kernel)
    if step % 3 == 0:
        call("cuMemAlloc_v2", byref(c_uint64()), c_uint64((1 << 20) + step), result=None)
    if step % 5 == 0:
        call("cuLaunchKernel", 77, 1, 1, 1, 1, 1, 1, 0, None, None, None, result=None)
    time.sleep(PAUSE)
call("cuCtxSynchronize")
"""
LITTLE = {"COTENANT_SIM_MEMORY": str(8 << 20)}  # Room for seven of these allocations.
BURSTS = """
context, module = start()
kept = [out("cuMemAlloc_v2", c_uint64(1000003 + n)) for n in range(5)]
for step in range(STEPS // 8 + 1):
    p = out("cuMemAlloc_v2", c_uint64((1 << 30) + step))
    time.sleep(2 * PAUSE)
    call("cuMemFree_v2", p)
    time.sleep(5 * PAUSE)
time.sleep(2.5)
"""
BOTH_GPUS = """
call("cuInit", 0)
for step in range(STEPS):
    for device in range(2):
        context = out("cuDevicePrimaryCtxRetain", device)
        call("cuCtxSetCurrent", context)
        if step < 2 and device >= 0:
            modules = globals().setdefault("modules", {})
            modules.setdefault(device, out("cuModuleLoadData", b"image"))
        launch(out("cuModuleGetFunction", modules[device], b"on_both"), 0, 1 + device)
        call("cuCtxSynchronize")
    time.sleep(PAUSE)
"""
SCRIPTS = {
    "events": EVENTS,
    "uploads": UPLOADS,
    "failures": FAILURES,
    "bursts": BURSTS,
    "both": BOTH_GPUS,
}


@dataclass
class Tenant:
    """A cgroup, its processes, and their truth logs."""

    name: str
    group: Cgroup
    logs: Path
    processes: list[Any] = field(default_factory=list)


class Crowd:
    """Tenants that run at the same time."""

    def __init__(self, place: Path, cgroups: Callable[[], Cgroup], seed: int, seconds: float):
        self.dice, self.seconds = random.Random(seed), seconds
        self.tenants: list[Tenant] = []
        self._place, self._cgroups = place, cgroups

    def start(self) -> None:
        """All of them."""
        for name, text in SCRIPTS.items():
            pause = self.dice.uniform(0.02, 0.06)
            values = f"STEPS, PAUSE = {round(self.seconds / pause)}, {pause}\n"
            line = ["python3", "-c", PRELUDE + values + text]
            self._tenant(name, [line], **(LITTLE if name == "failures" else {}))
        for number in range(3):
            self._story("mix", f"mix{number}", processes=self.dice.randrange(1, 4))
        self._story("serve", "serve", "--kernels", str(self.dice.randrange(1, 5)))
        self._story("noisy", "noisy")
        self._story("launch", "launch", "--threads", "2")
        ranks = self.dice.randrange(2, 5)
        self._story("train", "alone")
        self._story("train", "ddp", "--ranks", str(ranks), processes=ranks)

    def end(self) -> None:
        """Wait for all."""
        for tenant in self.tenants:
            for process in tenant.processes:
                process.communicate(timeout=120 * PATIENCE)
                assert process.returncode == 0, tenant.name

    def _story(self, story: str, name: str, *more: str, processes: int = 1) -> None:
        rate = self.dice.randrange(8, 30)
        words = ["--rate", str(rate), "--steps", str(round(rate * self.seconds)), *more]
        words += ["--streams", str(self.dice.randrange(1, 4))]
        words += ["--api", self.dice.choice(("driver", "runtime12", "runtime13"))]
        if "--threads" not in more:
            words += ["--device", str(self.dice.randrange(2))]
        lines = []
        for number in range(processes):
            own = ["--seed", str(self.dice.randrange(1 << 20))]
            if "--ranks" in more:
                own += ["--rank", str(number), "--id-file", str(self._place / f"{name}.id")]
            lines.append(sim.command(story, [*words, *own]))
        self._tenant(name, lines)

    def _tenant(self, name: str, lines: list[list[str]], **more: str) -> None:
        logs = self._place / name
        logs.mkdir(parents=True)
        tenant = Tenant(name, self._cgroups(), logs)
        environment = sim_environment(
            logs,
            COTENANT_SIM_DEVICES="2",
            # With little memory it is a device of its own.
            **({"COTENANT_SIM_DEVICE": f"cotenant-{tenant.group.name}"} | more if more else {}),
            COTENANT_SIM_SLOWDOWN=f"{self.dice.uniform(1, 1.8):.2f}",
            COTENANT_SIM_KERNEL_NS=f"*={self.dice.randrange(20_000, 4_000_000)}",
        )
        for line in lines:
            tenant.processes.append(tenant.group.popen(line, env=environment))
        self.tenants.append(tenant)
