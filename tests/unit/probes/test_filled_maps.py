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
PAGES = "test_pages_that_a_tenant_dirties_leave_its_neighbour_who_dirtied_his"
REQUESTS = "test_requests_that_a_tenant_queues_leave_its_neighbour_every_row"
CONNECTIONS = "test_connections_that_a_tenant_closes_leave_its_neighbour_his_own"
CROWD = "test_cgroups_that_wait_for_each_other_leave_their_neighbour_who_had_his_cpu"
NO_MEMORY = "test_totals_made_while_no_memory_can_be_had_leave_a_neighbour_his_own"
FACTS = "test_a_flood_of_communicators_leaves_its_neighbour_his_graphs"

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
    "gpu_tenants": MANY,
    "facts": FACTS,
    "dirtied": PAGES,
    "requests": REQUESTS,
    "refused_requests": REQUESTS,
    "bios": REQUESTS,
    "closed_flows": CONNECTIONS,
    "flow_places": CONNECTIONS,
    "contention": CROWD,
    "spare_totals": NO_MEMORY,
}
# Written by the agent, or one entry for each number that there is.
BY_NOBODY = {
    "answers", "captures_open", "controls", "counters", "cpu_runs", "ended", "freed",
    "functions", "migrations", "paths", "resting", "rooms", "runs", "settled_version", "tenants",
    "usage",
    # The operator says who is excluded, and the agent divides the room among them:
    # tests/unit/agent/helper/test_exclusion.py.
    "excluded",
    # The agent names at most 512: tests/unit/agent/recorder/overhead/test_first_tenants.py.
    "first_tenants",
    # A fixed number for each CPU.
    "callers", "meters",
    # Of programs that only try what a kernel can do.
    "allocated", "stack_places", "trees",
}  # fmt: skip
# A part of each thread or socket, and gone with it.
OF_OBJECTS = {"sched_tasks", "socket_users", "texts", "threads", "timings"}
# What is forgotten is looked up again; what wakes the helper says no more than that it is to look.
CACHES = {"places", "settled", "sightings"}


def maps() -> set[str]:
    sources = [*BPF.glob("*/*.bpf.c"), *BPF.glob("*/*.h")]
    return {
        name
        for source in sources
        for name in re.findall(r"^\} (\w+) SEC\(\"\.maps\"\)", source.read_text(), re.MULTILINE)
    }


def test_each_map_is_filled_by_a_test_or_is_one_that_no_tenant_can_fill():
    groups = [set(FILLED), BY_NOBODY, OF_OBJECTS, CACHES]
    assert maps() == set().union(*groups)
    assert sum(map(len, groups)) == len(maps())


def test_the_tests_that_fill_them_are_there():
    written = "".join(path.read_text() for path in KERNEL_TESTS.glob("test_*.py"))
    assert [test for test in FILLED.values() if f"def {test}(" not in written] == []
