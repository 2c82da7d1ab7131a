"""Who had the CPU that a tenant waited for, whoever else waits: ``bpf/kernel/waits.bpf.h``."""

import subprocess
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.unit.probes.c_values import BPF

RUNNER, NOBODY = 77, 0
MS, US = 1_000_000, 1_000
TURNS = 101


class Cpu:
    """What is fed to the program, and what each tenant should be told."""

    def __init__(self, program: Path) -> None:
        self._program = program
        self._lines: list[str] = []
        self.now = 1
        self.ran: Counter[int] = Counter()
        self.waited: Counter[int] = Counter()

    def run(self, tenant: int, ns: int) -> None:
        self.now += ns
        self.ran[tenant] += ns
        self._lines.append(f"r {tenant} {self.now}")

    def wait(self, tenant: int, began: int) -> None:
        self.waited[tenant] += self.now - began
        self._lines.append(f"w {tenant} {began} {self.now}")

    def told(self) -> tuple[dict[tuple[int, int], int], dict[int, int]]:
        """Nanoseconds by who waited and who ran, and refusals by who waited."""
        said = subprocess.run(
            [self._program],
            input="\n".join(self._lines),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        rows = [line.split() for line in said.splitlines()]
        waited = {(int(a), int(b)): int(ns) for what, a, b, ns in rows if what == "waited"}
        return waited, Counter(int(a) for what, a, _, _ in rows if what == "refused")


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("waits") / "waits"
    source = Path(__file__).with_name("waits.c")
    subprocess.run(["gcc", "-O1", f"-I{BPF}", "-o", found, source], check=True)
    return found


@pytest.fixture
def cpu(program: Path) -> Cpu:
    return Cpu(program)


@pytest.mark.parametrize("apart", [1, 128, 1 << 32])
def test_a_neighbour_takes_nothing_from_a_tenants_waits(cpu: Cpu, apart: int) -> None:
    """Both wait for a third; the neighbour is served first, for a moment."""
    victim, neighbour = 1000, 1000 + apart
    for _ in range(TURNS):
        began = cpu.now
        cpu.run(RUNNER, MS)
        cpu.wait(neighbour, began)
        cpu.run(neighbour, US)
        cpu.wait(victim, began)
        cpu.run(victim, US)
    waited, refused = cpu.told()
    assert waited == {
        (victim, RUNNER): TURNS * MS, (victim, neighbour): TURNS * US,
        (neighbour, RUNNER): TURNS * MS,
    }  # fmt: skip
    assert refused == {}


def rounds(cpu: Cpu, tenants: int) -> None:
    """Each tenant runs in turn, and waits until it is its turn again."""
    left = {}
    for turn in range(9 * tenants):
        tenant = 1000 + turn % tenants
        if tenant in left:
            cpu.wait(tenant, left[tenant])
        cpu.run(tenant, MS + turn)
        left[tenant] = cpu.now


def test_tenants_up_to_what_is_remembered_are_told_who_had_the_cpu(cpu: Cpu) -> None:
    rounds(cpu, 40)
    waited, refused = cpu.told()
    for tenant in cpu.waited:
        assert sum(ns for (a, _), ns in waited.items() if a == tenant) == cpu.waited[tenant]
        assert (tenant, NOBODY) not in waited
    assert refused == {}


def test_what_is_not_known_of_too_many_is_nobodys_and_is_told(cpu: Cpu) -> None:
    rounds(cpu, 240)
    waited, refused = cpu.told()
    for tenant in cpu.waited:
        assert sum(ns for (a, _), ns in waited.items() if a == tenant) == cpu.waited[tenant]
    lacking = {a for (a, b) in waited if b == NOBODY}
    assert lacking
    assert lacking == set(refused)


def test_nobody_is_charged_with_more_than_it_ran_however_many_wait(cpu: Cpu) -> None:
    """Threads of each tenant wait side by side, and lose their places among too many."""
    random = Random(5)
    threads = {(1000 + number, thread): 1 for number in range(300) for thread in range(3)}
    for _ in range(5000):
        tenant, thread = random.choice(list(threads))
        cpu.wait(tenant, threads[tenant, thread])
        cpu.run(tenant, random.randrange(1, MS))
        threads[tenant, thread] = cpu.now
    waited, refused = cpu.told()
    assert [pair for pair, ns in waited.items() if pair[1] and ns > cpu.ran[pair[1]]] == []
    assert sum(refused.values()) > 0
    for tenant, all_waits in cpu.waited.items():
        assert sum(ns for (a, _), ns in waited.items() if a == tenant) <= all_waits
