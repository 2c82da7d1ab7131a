"""Every map and ring that programs share, and the test that fills it as a tenant could."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
BPF = ROOT / "bpf"
KERNEL_TESTS = ROOT / "tests" / "kernel"

NESTED = "test_cgroups_within_a_tenant_share_its_part_of_the_ring"
MANY = "test_a_tenant_of_many_cgroups_leaves_others_their_totals"
FORGED = "test_what_a_tenant_forges_leaves_its_neighbour_memory_graphs_and_times"
CHURN = "test_a_tenant_that_makes_cgroups_without_end_has_a_bounded_number_of_rows"
NAMES = "test_a_flood_of_names_leaves_its_neighbour_his_own"
SWARM = "test_a_swarm_of_processes_leaves_its_neighbour_his_memory"

FILLED = {
    "events": NESTED,
    "totals": MANY,
    "told": CHURN,
    "identities": CHURN,
    "births": CHURN,
    "newborn": CHURN,
    "holdings": FORGED,
    "captures": FORGED,
    "members": FORGED,
    "moments": FORGED,
    "primaries": FORGED,
    "names": NAMES,
    "unread": NAMES,
    "processes": SWARM,
    "allocations": SWARM,
}
# Written by the agent, or one entry for each number that there is.
BY_NOBODY = {
    "captures_open", "controls", "counters", "cpu_runs", "ended", "freed", "functions",
    "migrations", "muted", "no_programs", "paths", "rooms", "tenants", "usage",
    # Of programs that only try what a kernel can do.
    "allocated", "stack_places",
}  # fmt: skip
# A part of each thread or socket, and gone with it.
OF_OBJECTS = {"sched_tasks", "socket_users", "texts", "threads", "timings"}
# What is forgotten is looked up again.
CACHES = {"places"}
# To be shrunk: no test fills them yet.
MISSING = {
    "bios", "closed_flows", "contention", "dirtied", "excluded", "facts", "gpu_tenants",
    "requests", "spare_totals",
}  # fmt: skip


def maps() -> set[str]:
    sources = [*BPF.glob("*/*.bpf.c"), *BPF.glob("*/*.h")]
    return {
        name
        for source in sources
        for name in re.findall(r"^\} (\w+) SEC\(\"\.maps\"\)", source.read_text(), re.MULTILINE)
    }


def test_each_map_is_filled_by_a_test_or_listed_as_one_that_is_not():
    groups = [set(FILLED), BY_NOBODY, OF_OBJECTS, CACHES, MISSING]
    assert maps() == set().union(*groups)
    assert sum(map(len, groups)) == len(maps())


def test_the_tests_that_fill_them_are_there():
    written = "".join(path.read_text() for path in KERNEL_TESTS.glob("test_*.py"))
    assert [test for test in FILLED.values() if f"def {test}(" not in written] == []
