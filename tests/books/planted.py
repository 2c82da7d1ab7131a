"""Tenants of a real recording of whom it is known what is wrong: hangs, slowdowns, and nothing."""

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cotenant import sim
from tests.kernel.conftest import Cgroup, sim_environment
from tests.kernel.script import PRELUDE

HANGS = ("never calls", "never returns", "waits for itself")
SLOWDOWNS = QUIET = 3
# How a healthy rank waits for its stream.
WAITS = {
    "stream": 'call("cuStreamSynchronize", stream)',
    "context": 'call("cuCtxSynchronize")',
    "event": """event = out("cuEventCreate", 0)
    call("cuEventRecord", event, c_void_p(stream))
    call("cuEventSynchronize", event)
    call("cuEventDestroy_v2", event)""",
    "query": """while call("cuStreamQuery", c_void_p(stream), result=None):
        time.sleep(0.002)""",
    "copy": 'call("cuMemcpyDtoHAsync_v2", host, memory, c_uint64(4096), c_void_p(stream))\n'
    '    call("cuStreamSynchronize", c_void_p(stream))',
}
BREAKS = {
    "sleeps": "time.sleep(1000)",
    "reads": "os.read(os.pipe()[0], 1)",
    "ends": "os._exit(0)",
    "spins": "while True: time.sleep(0.01) or [None] * 1000",
}
RANK = """
nccl = ctypes.CDLL("libnccl.so.2")
class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]
identity = Id()
if RANK == 0:
    nccl.ncclGetUniqueId(byref(identity))
    with open(PLACE + ".new", "wb") as file:
        file.write(bytes(identity))
    os.rename(PLACE + ".new", PLACE)
while not os.path.exists(PLACE):
    time.sleep(0.01)
ctypes.memmove(byref(identity), open(PLACE, "rb").read(), 128)
context, module = start()
kernel, stream = out("cuModuleGetFunction", module, b"layer"), out("cuStreamCreate", 1)
endless = out("cuModuleGetFunction", module, b"endless")
memory, host = out("cuMemAlloc_v2", c_uint64(1 << 20)), ctypes.create_string_buffer(4096)
comm = c_void_p()
nccl.ncclCommInitRank.argtypes = [c_void_p, c_int, Id, c_int]
assert nccl.ncclCommInitRank(byref(comm), RANKS, identity, RANK) == 0
for step in range(1 << 30):
    launch(kernel, stream, LAYERS)
    if RANK == BROKEN and step == STEPS:
        BREAK
    for part in range(1 + step % COLLECTIVES):
        nccl.ncclAllReduce(
            c_void_p(memory), c_void_p(memory), c_uint64(1000), 7, 0, comm, c_void_p(stream)
        )
    WAIT
    time.sleep(PAUSE)
"""


@dataclass
class Tenant:
    """A cgroup and what runs in it."""

    name: str
    group: Cgroup
    processes: list[Any] = field(default_factory=list)

    @property
    def shown(self) -> str:
        """Its name in answers."""
        return f"/{self.group.name}"


@dataclass
class Planted:
    """What is wrong with a tenant, and whose doing it is, as answers name it."""

    kind: str  # Of a finding.
    what: str
    victim: str
    culprit: str
    cause: str = ""


class Cases:
    """Three hangs, three slowdowns and three quiet tenants at a time."""

    def __init__(
        self, place: Path, cgroups: Callable[[], Cgroup], seed: int, seconds: float
    ) -> None:
        self.dice, self.seconds = random.Random(seed), seconds
        self.tenants: list[Tenant] = []
        self.planted: list[Planted] = []
        self.quiet: list[str] = []
        self.burners: list[str] = []
        self._place, self._cgroups = place, cgroups
        place.mkdir(parents=True)

    def start(self, *, busy: bool) -> None:
        """All of them; beside them, on a busy host, more threads than CPUs that only compute."""
        if busy:
            burner = self._tenant("burner", [[sys.executable, "-c", "while True: pass"]] * 3, {})
            self.burners.append(burner.shown)
        for kind in HANGS:
            self._hang(kind)
        for number in range(SLOWDOWNS):
            self._slowdown(number)
        self._quiet()

    def end(self) -> None:
        """Kill all."""
        for tenant in self.tenants:
            for process in tenant.processes:
                process.kill()
        for tenant in self.tenants:
            for process in tenant.processes:
                process.communicate()

    def _hang(self, kind: str) -> None:
        dice = self.dice
        ranks, pause = dice.randrange(2, 4), dice.uniform(0.015, 0.04)
        broken, wait = dice.randrange(ranks), dice.choice(list(WAITS))
        steps = round(self.seconds * dice.uniform(0.15, 0.3) / (pause + 0.01))
        breaks, switches = dice.choice(list(BREAKS)), {}
        layers, collectives = dice.randrange(1, 4), dice.randrange(1, 4)
        stop = BREAKS[breaks]
        if kind == "never returns":
            breaks, stop = "", "pass"
            switches = {"COTENANT_SIM_NCCL_HANG": f"{broken}:{steps}"}
        elif kind == "waits for itself":
            breaks = ""
            stop = 'launch(endless, stream)\n        call("cuStreamSynchronize", c_void_p(stream))'
        name = f"hang-{HANGS.index(kind)}"
        values = {
            "RANKS": ranks, "BROKEN": broken, "STEPS": steps, "PAUSE": pause, "LAYERS": layers,
            "COLLECTIVES": collectives, "PLACE": f"{self._place}/{name}.id",
        }  # fmt: skip
        text = RANK.replace("BREAK", stop).replace("WAIT", WAITS[wait])
        given = "".join(f"{key} = {value!r}\n" for key, value in values.items())
        lines = [
            [sys.executable, "-c", f"{PRELUDE}{given}RANK = {rank}\n{text}"]
            for rank in range(ranks)
        ]
        switches["COTENANT_SIM_KERNEL_NS"] = "endless=1000000000000,*=1000000"
        tenant = self._tenant(name, lines, switches)
        what = f"{kind} {breaks} {wait} {ranks} ranks {collectives} collectives"
        culprit = f"{tenant.shown} rank {broken}"
        self.planted.append(Planted("hung collective", what, tenant.shown, culprit))

    def _slowdown(self, number: int) -> None:
        dice = self.dice
        device = {"COTENANT_SIM_DEVICE": f"cotenant-{self._place.name}-{number}-{dice.random()}"}
        device["COTENANT_SIM_UUIDS"] = f"GPU-{dice.getrandbits(128):032x}"
        factor = dice.uniform(1.4, 2.5)
        took = dice.uniform(1.5e6, 4e6)
        story = dice.choice(("train", "serve"))
        rate = {"train": dice.uniform(40, 70), "serve": dice.uniform(10, 18)}[story]
        kernels = dice.randrange(1, 3)
        victim = self._story(
            story, f"victim-{number}", rate * 2e6 / took / kernels, kernels, 1, {
                **device, "COTENANT_SIM_SLOWDOWN": "1.0", "COTENANT_SIM_KERNEL_NS": f"*={took:.0f}",
            },
        )  # fmt: skip
        # It has work for a third to a half of the time, some hundred milliseconds at once.
        kernel_ns, burst = dice.uniform(3e6, 6e6), 64 * dice.randrange(1, 3)
        rate = dice.uniform(0.3, 0.5) / kernel_ns * 1e9
        aggressor = self._story(
            "noisy", f"aggressor-{number}", rate, 2, burst, {
                **device, "COTENANT_SIM_SLOWDOWN": f"{factor:.3f}",
                "COTENANT_SIM_KERNEL_NS": f"*={kernel_ns:.0f}",
            },
        )  # fmt: skip
        self.planted.append(
            Planted(
                "noisy neighbour", f"{story} x {factor:.2f}", victim.shown, aggressor.shown,
                "time slicing",
            )
        )  # fmt: skip

    def _quiet(self) -> None:
        dice = self.dice
        shared = {"COTENANT_SIM_DEVICE": f"cotenant-{self._place.name}-q-{dice.random()}"}
        shared["COTENANT_SIM_UUIDS"] = f"GPU-{dice.getrandbits(128):032x}"
        for number in range(QUIET):
            story = dice.choice(("train", "serve", "mix"))
            rate = {"train": 30, "serve": 10, "mix": 40}[story] * dice.uniform(0.7, 1.4)
            more = {
                "COTENANT_SIM_SLOWDOWN": "1.0",
                "COTENANT_SIM_KERNEL_NS": f"*={dice.uniform(5e5, 3e6):.0f}",
            }
            tenant = self._story(
                story, f"quiet-{number}", rate, dice.randrange(1, 3), 1, {**shared, **more}
            )
            self.quiet.append(tenant.shown)

    def _story(
        self, story: str, name: str, rate: float, kernels: int, burst: int, more: dict[str, str]
    ) -> Tenant:
        words = ["--rate", f"{rate:.2f}", "--burst", str(burst), "--kernels", str(kernels)]
        words += ["--steps", "1000000", "--seed", str(self.dice.randrange(1 << 20))]
        return self._tenant(name, [sim.command(story, words)], more)

    def _tenant(self, name: str, lines: list[list[str]], more: dict[str, str]) -> Tenant:
        tenant = Tenant(name, self._cgroups())
        if "COTENANT_SIM_DEVICE" not in more:
            more = {**more, "COTENANT_SIM_DEVICE": f"cotenant-{tenant.group.name}"}
        for line in lines:
            environment = sim_environment(**more)
            tenant.processes.append(tenant.group.popen(line, env=environment))
        self.tenants.append(tenant)
        return tenant


@dataclass
class Verdicts:
    """What the findings of a recording say of each planted thing, and of those that are well."""

    right: list[Planted] = field(default_factory=list)
    wrong: list[tuple[Planted, list[str]]] = field(default_factory=list)
    accused: list[str] = field(default_factory=list)  # Innocents, with a confidence above a half.


def judged(cases: Cases, findings: list[dict[str, Any]]) -> Verdicts:
    """Whether each planted thing was found, and whether any innocent is named."""
    verdicts = Verdicts()
    for each in cases.planted:
        of_it = [f for f in findings if f["kind"] == each.kind and f["victim"] == each.victim]
        hit = any(
            f["culprit"] == each.culprit
            and f["confidence"] > 0.5
            and f["title"].endswith(each.cause)
            for f in of_it
        )
        if hit:
            verdicts.right.append(each)
        else:
            verdicts.wrong.append((each, [_said(f) for f in of_it]))
    known = {(p.kind, p.victim, p.culprit) for p in cases.planted}
    own = {tenant.shown for tenant in cases.tenants}
    for finding in findings:
        culprit = finding["culprit"] or ""
        named = culprit.partition(" rank ")[0]
        if finding["confidence"] <= 0.5 or named not in own or named in cases.burners:
            continue
        if (finding["kind"], finding["victim"], culprit) not in known:
            verdicts.accused.append(_said(finding))
    return verdicts


def _said(finding: dict[str, Any]) -> str:
    return f"{finding['kind']}: {finding['title']} ({finding['culprit']}, {finding['confidence']})"
