"""Questions about one tenant whose answer rests on what others did."""

import json

import pytest

from cotenant.query.engine.session import Session
from cotenant.query.questions.loader import find, questions
from cotenant.query.screens.tenants import meant
from cotenant.views.cli import main
from tests.virtual.device import START_NS
from tests.virtual.store import VirtualStore

MS = 1_000_000
SECOND = 1_000_000_000


@pytest.fixture
def store(tmp_path):
    return VirtualStore(tmp_path / "store")


def _rows(root, name, *settings, tenant=None, **window):
    """What ``cotenant ask`` shows."""
    question = find(name)
    tenants = meant(root, tenant) if tenant else None
    with Session(root, **window) as session:
        return session.ask(question.render(settings, tenants)).rows()


def _asked(root, capsys, *words):
    assert main(["ask", *words, "--json", "--store", str(root)]) == 0
    return json.loads(capsys.readouterr().out)["rows"]


def _io(store, tenant, at, took, size=4096):
    row = {"timestamp_ns": START_NS + at, "duration_ns": took, "op": "read", "bytes": size}
    store.add(
        "io_events", tenant, row | {"device": "vda", "sector": 1, "error": 0, "attribution": "task"}
    )


def _wait(store, tenant, peer, at, took, tid=7):
    row = {"timestamp_ns": START_NS + at, "duration_ns": took, "op": "runqueue", "tid": tid}
    row |= {"peer_cgroup_id": store.tenant(peer), "cpu": 1, "attribution": "task"}
    store.add("host_events", tenant, row)


def _arrive(store, rank, at, **more):
    row = {"timestamp_ns": START_NS + at, "pid": 30 + rank, "op": "AllReduce", "rank": rank}
    row |= {"api": "ncclAllReduce", "duration_ns": 7, "nranks": 2, "comm_hash": 77, "result": 0}
    store.add("nccl_events", f"job/{rank}", row | more)


def test_whose_io_delays_a_tenant_is_told_of_that_tenant_alone(store, capsys):
    _io(store, "train", 0, 2 * MS)
    _io(store, "train", 10 * MS, 8 * MS)
    _io(store, "backup", 11 * MS, 3 * MS, 1 << 20)
    rows = _asked(store.write(), capsys, "io_delays", "--tenant", "train")
    assert [(r["tenant"], r["neighbour"], r["beside_ns"], r["alone_ns"]) for r in rows] == [
        ("train", "backup", 8 * MS, 2 * MS)
    ]


def test_a_limit_counts_only_rows_of_the_tenant(store, capsys):
    for at in range(3):
        _wait(store, "other", "train", at * SECOND, 500 * MS)
    _wait(store, "train", "batch", 0, 7 * MS)
    root = store.write()
    rows = _asked(root, capsys, "who_stole_cpu", "limit=1", "--tenant", "train")
    assert [(r["tenant"], r["thief"], r["waited_ns"]) for r in rows] == [("train", "batch", 7 * MS)]


def test_what_others_did_around_a_slow_call_is_told(store, capsys):
    call = {"timestamp_ns": START_NS, "tid": 7, "op": "sync", "api": "cuStreamSynchronize"}
    call |= {"duration_ns": 20 * MS, "result": 0, "kernel_name": "[sync]"}
    store.add("cuda_events", "train", call)
    store.add("cuda_events", "other", call | {"tid": 8, "duration_ns": 90 * MS})
    _wait(store, "train", "batch", MS, 5 * MS)
    _io(store, "backup", MS, 3 * MS, 1 << 20)
    root = store.write()
    (row,) = _asked(root, capsys, "around_slow_call", "limit=1", "--tenant", "train")
    assert (row["tenant"], row["duration_ns"]) == ("train", 20 * MS)
    assert (row["cpu_thief"], row["other_io_tenant"]) == ("batch", "backup")
    assert row["other_io_bytes"] == 1 << 20


def test_ranks_in_pods_of_their_own_are_compared_with_the_others(store, capsys):
    for turn in range(3):
        _arrive(store, 0, turn * SECOND)
        _arrive(store, 1, turn * SECOND + 100 * MS)
    root = store.write()
    rows = _asked(root, capsys, "late_ranks", "--tenant", "job/1")
    assert [(r["tenant"], r["rank"], r["collectives"], r["last"]) for r in rows] == [
        ("job/1", 1, 3, 3)
    ]
    held_up = _asked(root, capsys, "slow_collectives", "--tenant", "job/0")
    assert [(r["tenant"], r["late_rank"]) for r in held_up] == [("job/1", 1)] * 3


def test_the_sql_that_is_shown_names_the_tenants_itself(store, capsys):
    _wait(store, "train", "batch", 0, 7 * MS)
    root = store.write()
    words = ["who_stole_cpu", "--tenant", "train", "--show-sql", "--store", str(root)]
    assert main(["ask", *words]) == 0
    sql = capsys.readouterr().out.partition("\n\n")[0]
    assert "--tenant" not in sql
    assert "list_contains(['train'], tenant)" in sql


def test_a_thief_has_no_more_than_it_ran(store, capsys):
    """Three threads waited 9 ms each while one ran for 4 ms, and others for the rest."""
    for tid in (7, 8, 9):
        _wait(store, "train", "batch", 0, 9 * MS, tid=tid)
    for thief, ns in (("batch", 4 * MS), ("train", 3 * MS), (None, 2 * MS)):
        row = {"timestamp_ns": START_NS + SECOND, "waited_ns": ns}
        if thief:
            row["peer_cgroup_id"] = store.tenant(thief)
        store.add("cpu_contention", "train", row)
    ran = {"timestamp_ns": START_NS + SECOND, "family": "host", "function": "oncpu"}
    ran |= {"count": 1, "max_ns": 0, "histogram": [0], "bytes": 0}
    store.add("totals", "batch", ran | {"sum_ns": 4 * MS})
    store.add("totals", "train", ran | {"sum_ns": 3 * MS})
    root = store.write()
    rows = _asked(root, capsys, "who_stole_cpu", "own=true", "--tenant", "train")
    assert [(r["thief"], r["waited_ns"], r["ran_ns"]) for r in rows] == [
        ("batch", 4 * MS, 4 * MS),
        ("train", 3 * MS, 3 * MS),
        ("(nobody known)", 2 * MS, None),
    ]


def test_an_old_recording_charges_nobody_with_more_than_it_ran(store, capsys):
    for tid in (7, 8, 9):
        _wait(store, "train", "batch", 0, 9 * MS, tid=tid)
    ran = {"timestamp_ns": START_NS + SECOND, "family": "host", "function": "oncpu"}
    ran |= {"count": 1, "max_ns": 0, "histogram": [0], "bytes": 0, "sum_ns": 5 * MS}
    store.add("totals", "batch", ran)
    (row,) = _asked(store.write(), capsys, "who_stole_cpu", "--tenant", "train")
    assert (row["thief"], row["waited_ns"], row["ran_ns"]) == ("batch", 5 * MS, 5 * MS)


@pytest.mark.parametrize("name", sorted(n for n, q in questions().items() if q.about_others))
def test_a_session_of_one_tenant_has_no_row_that_names_another(store, name):
    for turn in range(3):
        _arrive(store, 0, turn * SECOND)
        _arrive(store, 1, turn * SECOND + 100 * MS)
    _wait(store, "job/0", "job/1", 0, 7 * MS)
    _io(store, "job/0", 0, 7 * MS)
    _io(store, "job/1", MS, 7 * MS)
    # As on the page of one tenant: the SQL may say whatever its reader likes.
    with Session(store.write(), tenant="job/0") as session:
        for tenants in (None, ["job/1"]):
            found = session.ask(find(name).render(tenants=tenants)).rows()
            assert "job/1" not in json.dumps(found)


def test_the_second_of_two_tenants_is_never_the_first(store):
    for tenant, calls in (("a", 7), ("b", 5), ("c", 3)):
        for call in range(calls):
            row = {"timestamp_ns": START_NS + call, "op": "launch", "api": "cuLaunchKernel"}
            store.add("cuda_events", tenant, row | {"kernel_name": "k", "duration_ns": 7})
    root = store.write()

    def pair(*settings, **options):
        return [
            (r["tenant"], r["other"]) for r in _rows(root, "compare_tenants", *settings, **options)
        ]

    assert pair() == [("a", "b")]
    assert pair("a=b") == [("b", "a")]
    assert pair("b=a") == [("b", "a")]
    assert pair("a=a") == [("a", "b")]
    assert pair("a=c", "b=b") == [("c", "b")]
    assert pair(tenant="c") == [("c", "a")]


def _second(store, tenant, at, cpu_ns):
    row = {"timestamp_ns": START_NS + at, "family": "host", "function": "oncpu", "count": 1}
    row |= {"sum_ns": cpu_ns, "max_ns": cpu_ns, "histogram": [1], "bytes": 0}
    store.add("totals", tenant, row)


def test_the_time_between_two_recordings_is_nobodys(store):
    store.recording(0)
    store.recording(3_600 * SECOND)
    for second in (1, 2, 3_601, 3_602):
        _second(store, "train", second * SECOND, SECOND // 2)
    _second(store, "serve", 2 * SECOND, SECOND)
    root = store.write()
    rows = _rows(root, "who_uses_what")
    assert [(r["tenant"], r["cpus"], r["cpu_percent"]) for r in rows] == [
        ("train", 0.5, 66.7),
        ("serve", 0.25, 33.3),
    ]
    # Of all that was used, not of what it used itself.
    rows = _rows(root, "who_uses_what", tenant="serve")
    assert [(r["tenant"], r["cpus"], r["cpu_percent"]) for r in rows] == [("serve", 0.25, 33.3)]


def test_seconds_in_which_a_tenant_did_nothing_count_for_its_size(store):
    for second in range(11):
        _second(store, "train", second * SECOND, SECOND)
    _second(store, "serve", 5 * SECOND, SECOND)
    (row,) = _rows(store.write(), "rightsize", tenant="serve")
    assert (row["tenant"], row["cpus_p50"], row["cpus_peak"]) == ("serve", 0.0, 1.0)


def _under_way(store, tenant, looks):
    for look in looks:
        row = {"timestamp_ns": START_NS + look * SECOND, "family": "nccl", "began_ns": START_NS}
        row |= {"function": "ncclAllReduce", "comm_hash": 77}
        store.add("in_flight", tenant, row)


def test_a_call_is_under_way_as_of_the_last_look_whatever_that_found(store):
    _under_way(store, "train", (30, 31, 32))
    for second in (30, 31, 32, 37):
        _second(store, "cron", second * SECOND, 7)
    root = store.write()
    for tenant in (None, "train"):
        then = _rows(root, "under_way", tenant=tenant, to_ns=START_NS + 33 * SECOND)
        assert [r["under_way_ns"] for r in then] == [32 * SECOND]
        assert _rows(root, "under_way", tenant=tenant) == []
