"""Every cgroup has one row, from its birth to its removal, under one id."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.identity import NOBODY, UNTOLD, Ledger, Names, Preference, TenantRule
from cotenant.identity.rows import COLUMNS
from cotenant.identity.text import path_text
from cotenant.identity.translation import distinct_pairs

A, B = "a" * 64, "b" * 64
MEMORY, BLKIO = 4, 7


@pytest.fixture
def ledger():
    return Ledger("node1", "boot1", v1_hierarchy=MEMORY)


def u64(*values):
    return np.array(values, np.uint64)


def row_of(ledger, cgroup_id):
    (row,) = [row for row in ledger.rows() if row["cgroup_id"] == cgroup_id]
    return row


def tenants(ledger, v2, v1=()):
    found = ledger.translate(u64(*v2), u64(*v1) if v1 else None).tolist()
    return [row_of(ledger, cgroup_id)["tenant"] for cgroup_id in found]


def test_host_kernel_and_unknown_always_have_their_row(ledger):
    assert tenants(ledger, [1, NOBODY, UNTOLD]) == ["host", "kernel", "unknown"]


def test_a_row_has_exactly_the_columns_of_the_table(ledger):
    ledger.born(0, 23, f"/docker/{A}", 1000)

    assert all(tuple(row) == COLUMNS for row in ledger.rows())


def test_an_id_differs_between_nodes_boots_and_hierarchies():
    ids = {
        Ledger(node, boot).cgroup_id(hierarchy, 23)
        for node in ("a", "b")
        for boot in ("x", "y")
        for hierarchy in (0, 4)
    }

    assert len(ids) == 8
    assert min(ids) >= 0
    assert max(ids) < 2**63


def test_whatever_a_user_makes_is_the_users(ledger):
    ledger.born(0, 23, "/given", 1000)
    ledger.born(0, 24, f"/given/docker-{A}.scope", 2000, maker_uid=1000)

    assert tenants(ledger, [24]) == ["user/1000"]
    assert row_of(ledger, ledger.cgroup_id(0, 24))["container_id"] == "user/1000"


def test_a_cgroup_is_kept_from_birth_to_removal(ledger):
    ledger.born(0, 23, f"/docker/{A}", 1000)
    ledger.named(f"/docker/{A}", Names("docker", name="t", confirmed=True), 1500)
    ledger.removed(0, 23, 2000)
    row = row_of(ledger, ledger.cgroup_id(0, 23))

    assert (row["created_ns"], row["named_ns"], row["removed_ns"]) == (1000, 1500, 2000)
    assert (row["container_id"], row["name"], row["tenant"]) == (A, "t", "t")


def test_a_name_that_comes_after_the_removal_is_shown(ledger):
    ledger.born(0, 23, f"/docker/{A}", 1000)
    ledger.removed(0, 23, 2000)
    ledger.named(f"/docker/{A}", Names("docker", name="late", confirmed=True), 3000)

    assert tenants(ledger, [23]) == ["late"]


def test_a_name_counts_for_all_cgroups_of_the_container(ledger):
    ledger.born(0, 23, f"/docker/{A}", 1000)
    ledger.born(0, 29, f"/docker/{A}/init", 1001)
    ledger.named(f"/docker/{A}", Names("docker", name="t", confirmed=True), 1500)

    assert tenants(ledger, [23, 29]) == ["t", "t"]


def test_a_name_that_comes_before_its_cgroup_is_kept_for_it(ledger):
    ledger.named(f"/docker/{A}", Names("docker", name="early", confirmed=True), 1500)
    assert tenants(ledger, [23]) == ["unknown"]
    ledger.born(0, 23, f"/docker/{A}", 1000)
    ledger.born(MEMORY, 29, f"/docker/{A}/init", 1001)
    row = row_of(ledger, ledger.cgroup_id(0, 23))

    assert (row["name"], row["named_ns"]) == ("early", 1500)
    assert tenants(ledger, [23, 1], [0, 29]) == ["early", "early"]


def test_a_name_that_comes_before_its_cgroup_at_a_path_used_again_is_kept_for_it(ledger):
    ledger.born(0, 23, "/ns/train", 1000)
    ledger.removed(0, 23, 2000)
    ledger.named("/ns/train", Names("containerd", name="second", confirmed=True), 3100)
    ledger.born(0, 31, "/ns/train", 3000)

    assert tenants(ledger, [31]) == ["second"]


def test_a_late_name_of_a_cgroup_that_is_gone_is_not_the_next_ones(ledger):
    ledger.born(0, 23, "/ns/train", 1000)
    ledger.removed(0, 23, 2000)
    ledger.named("/ns/train", Names("containerd", name="late", confirmed=True), 2500)
    ledger.born(0, 31, "/ns/train", 3000)

    assert tenants(ledger, [23, 31]) == ["late", "train"]


def test_early_names_are_few_and_not_kept_for_ever(ledger):
    for number in range(1031):
        ledger.named(f"/docker/{number:064x}", Names("d", name="n", confirmed=True), number)
    ledger.forget(1029)
    for number in range(1031):
        ledger.born(0, 100 + number, f"/docker/{number:064x}")

    assert len([row for row in ledger.rows() if row["name"] == "n"]) == 2
    assert ledger._early == {}
    for number in range(1031):
        ledger.named(f"/docker/{A}{number}", Names("d", name="n"), number)
    assert len(ledger._early) == 1024


def test_a_path_used_again_does_not_inherit_the_old_name(ledger):
    ledger.born(0, 23, "/ns/train", 1000)
    ledger.named("/ns/train", Names("containerd", name="first", confirmed=True), 1100)
    ledger.removed(0, 23, 2000)
    ledger.born(0, 31, "/ns/train", 3000)
    ledger.named("/ns/train", Names("containerd", name="second", confirmed=True), 3100)

    assert tenants(ledger, [23, 31]) == ["first", "second"]


def test_the_walk_and_the_tracepoint_tell_the_same_cgroup_once(ledger):
    ledger.born(0, 23, f"/docker/{A}", 1000)
    before = ledger.rows()
    ledger.born(0, 23, f"/docker/{A}", owner_uid=0)
    ledger.born(0, 23, f"/docker/{A}", 1000)

    assert ledger.rows() == before


def test_an_unknown_id_has_a_row_that_its_birth_completes(ledger):
    (cgroup_id,) = ledger.translate(u64(23)).tolist()
    row = row_of(ledger, cgroup_id)
    assert (row["tenant"], row["kernel_cgroup_id"]) == ("unknown", 23)

    ledger.born(0, 23, f"/docker/{A}", 1000)
    assert ledger.translate(u64(23)).tolist() == [cgroup_id]
    assert row_of(ledger, cgroup_id)["container_id"] == A


def test_the_same_path_in_another_hierarchy_is_the_same_container(ledger):
    ledger.born(BLKIO, 307, f"/docker/{A}", 1000)
    ledger.born(MEMORY, 688, f"/docker/{A}", 1001)
    ledger.born(0, 23, f"/docker/{A}", 1002)
    v2 = ledger.translate(u64(23)).tolist()

    assert ledger.translate(u64(1), u64(688)).tolist() == v2
    assert ledger.translate_in(BLKIO, u64(307)).tolist() == v2
    assert [row["container_id"] for row in ledger.rows()].count(A) == 1


def settled(ledger, before_ns):
    rows, others = ledger.settled_rows(before_ns)
    return sorted(row["hierarchy"] for row in rows if A in (row["cgroup_path"] or "")), others


def test_a_row_is_settled_once_its_twin_in_version_2_cannot_come_any_more(ledger):
    ledger.born(BLKIO, 23, f"/docker/{A}", 1000)
    assert settled(ledger, 1000) == ([], True)
    assert settled(ledger, 1001) == ([BLKIO], False)
    ledger.born(0, 29, f"/docker/{A}", 1007)
    assert settled(ledger, 1000) == ([0], False)


def test_a_row_that_events_refer_to_is_settled(ledger):
    ledger.born(BLKIO, 23, f"/docker/{A}", 1000)
    ledger.translate_in(BLKIO, u64(23))
    assert settled(ledger, 1000) == ([BLKIO], False)


def test_equal_ids_of_two_hierarchies_are_two_cgroups(ledger):
    ledger.born(0, 23, f"/docker/{A}", 1000)
    ledger.born(BLKIO, 23, f"/docker/{B}", 1001)
    (v2,) = ledger.translate(u64(23)).tolist()
    (v1,) = ledger.translate_in(BLKIO, u64(23)).tolist()

    assert row_of(ledger, v2)["container_id"] == A
    assert row_of(ledger, v1)["container_id"] == B


def test_a_path_used_again_is_not_translated_to_the_old_cgroup(ledger):
    ledger.born(0, 23, "/ns/train", 1000)
    ledger.removed(0, 23, 2000)
    ledger.born(BLKIO, 307, "/ns/train", 3000)
    found = ledger.translate_in(BLKIO, u64(307)).tolist()

    assert found == [ledger.cgroup_id(BLKIO, 307)]


def test_v1_counts_where_v2_names_only_a_place(ledger):
    ledger.born(0, 23, "/system.slice/containerd.service", 1000)
    ledger.born(0, 29, f"/docker/{B}", 1000)
    ledger.born(MEMORY, 688, f"/docker/{A}", 1000)

    assert tenants(ledger, [1, 23, 29, 999], [688] * 4) == [A[:12], A[:12], B[:12], A[:12]]


def test_a_plain_directory_in_v1_does_not_hide_the_host(ledger):
    ledger.born(MEMORY, 688, "/sandbox/0123", 1000)
    assert tenants(ledger, [1], [688]) == ["host"]

    ledger.named("/sandbox/0123", Names("containerd", name="c", confirmed=True), 2000)
    assert tenants(ledger, [1], [688]) == ["c"]


def test_without_v2_a_plain_directory_in_v1_counts():
    ledger = Ledger("n", "b", v1_hierarchy=MEMORY, preference=Preference("auto", v2_in_use=False))
    ledger.born(MEMORY, 688, "/sandbox/0123", 1000)

    assert tenants(ledger, [1, 1], [688, 1]) == ["0123", "host"]


@pytest.mark.parametrize(("prefer", "tenant"), [("v2", B[:12]), ("v1", A[:12])])
def test_a_forced_hierarchy_is_the_one_that_counts(prefer, tenant):
    ledger = Ledger("n", "b", v1_hierarchy=MEMORY, preference=Preference(prefer))
    ledger.born(0, 23, f"/docker/{B}", 1000)
    ledger.born(MEMORY, 688, f"/docker/{A}", 1000)

    assert tenants(ledger, [23], [688]) == [tenant]


def test_a_renamed_cgroup_takes_those_below_along(ledger):
    ledger.born(MEMORY, 31, "/old", 1)
    ledger.born(MEMORY, 37, f"/old/docker/{A}", 2)
    ledger.renamed(MEMORY, 31, "/new")

    assert ledger.row(MEMORY, 37)["cgroup_path"] == f"/new/docker/{A}"


def test_a_directory_below_a_users_is_the_users(ledger):
    ledger.born(0, 31, "/shared", 1, owner_uid=1000)
    ledger.born(0, 37, f"/shared/docker/{A}", 2)
    row = ledger.row(0, 37)

    assert (row["tenant"], row["trust"], row["inner_container_id"]) == ("user/1000", "user", A)


def test_an_imitated_pod_shows_no_pod_once_its_runtime_denies_it(ledger):
    uid = "98005c3b-b650-4efe-8b91-2164d784397f"
    path = f"/kubepods/burstable/pod{uid}/{A}"
    ledger.born(0, 23, path, 1)
    assert ledger.row(0, 23)["pod_uid"] == uid

    ledger.named(path, Names("docker", name="evil", confirmed=True), 2)
    row = ledger.row(0, 23)
    assert (row["pod_uid"], row["tenant"], row["trust"]) == (None, "evil", "unverified")


def test_forgotten_cgroups_are_handed_over_once(ledger):
    ledger.born(0, 23, f"/docker/{A}", 1000)
    ledger.born(0, 29, f"/docker/{B}", 1000)
    ledger.removed(0, 23, 2000)

    assert [row["container_id"] for row in ledger.forget(3000)] == [A]
    assert ledger.forget(3000) == []
    assert [row["container_id"] for row in ledger.rows()] == ["kernel", "unknown", "host", B]


def test_a_cgroup_that_nobody_tells_of_is_dropped_in_the_end(ledger):
    ledger.translate(np.array([23], np.uint64))
    ledger.forget(3000)
    assert ledger.row(0, 23) is not None
    for _ in range(5):
        ledger.forget(3000)
    assert ledger.row(0, 23) is None
    assert ledger.row(0, 1) is not None


def test_rules_decide_the_tenant_of_rows():
    ledger = Ledger("n", "b", rules=[TenantRule("lab", path="/team-*")])
    ledger.born(0, 23, "/team-a", 1)

    assert tenants(ledger, [23]) == ["lab"]
    assert ledger.excludes(0, 23, ["la?"])


def test_a_path_that_is_no_text_becomes_text(ledger):
    ledger.born(0, 23, path_text(b"/bad\xff"), 1)

    assert ledger.row(0, 23)["cgroup_path"] == "/bad\\xff"


def test_a_thousand_short_lives_keep_their_rows(ledger):
    for number in range(1009):
        ledger.born(0, 100 + number, f"/docker/{number:064x}", number)
        ledger.removed(0, 100 + number, number + 20)
    found = ledger.translate(u64(*range(100, 1109))).tolist()
    rows = {row["cgroup_id"]: row for row in ledger.rows()}

    assert [rows[x]["container_id"] for x in found] == [f"{n:064x}" for n in range(1009)]
    assert len(rows) == 1009 + 3


COLUMN = st.lists(st.integers(0, 3), max_size=50)


@given(COLUMN, COLUMN)
def test_distinct_pairs_rebuild_both_columns(first, second):
    count = min(len(first), len(second))
    left, right = u64(*first[:count]), u64(*second[:count])
    pairs, inverse = distinct_pairs(left, right)

    assert [pairs[i] for i in inverse] == list(zip(first[:count], second[:count], strict=True))
    assert len(set(pairs)) == len(pairs)


FACTS = st.lists(
    st.tuples(
        st.sampled_from(["born", "removed", "seen"]),
        st.sampled_from([0, MEMORY, BLKIO]),
        st.integers(2, 6),
    ),
    max_size=40,
)


@given(FACTS)
def test_facts_in_any_order_give_one_row_per_id_and_drop_no_event(facts):
    ledger = Ledger("n", "b", v1_hierarchy=MEMORY)
    seen = set()
    for now, (kind, hierarchy, kernel_id) in enumerate(facts):
        if kind == "born":
            ledger.born(hierarchy, kernel_id, f"/docker/{kernel_id % 3:064x}", now)
        elif kind == "removed":
            ledger.removed(hierarchy, kernel_id, now)
        else:
            seen.update(ledger.translate_in(hierarchy, u64(kernel_id)).tolist())
    ids = [row["cgroup_id"] for row in ledger.rows()]

    assert len(set(ids)) == len(ids)
    assert seen <= set(ids)


def test_whose_an_event_is_stays_the_same_however_a_user_nests_cgroups(ledger):
    ledger.born(0, 2, f"/docker/{A}")
    ledger.born(0, 3, f"/docker/{A}/within/it")
    ledger.born(0, 4, "/given", owner_uid=1000)
    ledger.born(0, 5, "/given/a/b", maker_uid=1000)
    ledger.born(MEMORY, 6, f"/docker/{B}")
    assert [ledger.outermost(n) for n in (2, 3)] == [f"/docker/{A}"] * 2
    assert [ledger.outermost(n) for n in (4, 5)] == ["/given"] * 2
    assert ledger.outermost(1, 6) == f"/docker/{B}"
    assert ledger.outermost(1) == ledger.outermost(99) == "/"
