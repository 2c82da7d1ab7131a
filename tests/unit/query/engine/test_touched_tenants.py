"""A hole is told to the tenant that it may be of, however it is named, and to no other."""

import json

import pyarrow as pa
import pytest

from cotenant.query.engine.session import QueryLimits, Session
from cotenant.store.writer import StoreWriter
from cotenant.views import text
from tests.unit.query.conftest import NOW_NS, SECOND_NS

MINUTE_NS = 60 * SECOND_NS
USER, NESTED, NEIGHBOUR, GIVEN, WITHIN = 63, 787, 101, 103, 107
TRAIN, SERVE, NOBODY_A, NOBODY_B = 11, 22, 97, 98
INNER = "c" * 64
NO_COUNTS = dict.fromkeys(("seen", "stored", "shed", "lost", "queued"), 0)


def container(cgroup_id, tenant, node="node-a", **more):
    row = {"cgroup_id": cgroup_id, "tenant": tenant, "container_id": tenant, "node": node}
    row |= dict.fromkeys(("cgroup_path", "inner_container_id", "slurm_job"))
    return row | {"boot_id": f"boot-{node}", "scope": "node"} | more


def counts(cgroup_id, family="cuda", **numbers):
    when = {"timestamp_ns": NOW_NS + SECOND_NS, "cgroup_id": cgroup_id, "family": family}
    return NO_COUNTS | dict.fromkeys(("from_ns", "to_ns", "reason", "unseen")) | when | numbers


def hole(cgroup_id, reason="probes came late", *, unseen=None):
    when = {"from_ns": NOW_NS, "to_ns": NOW_NS + SECOND_NS}
    return counts(cgroup_id) | when | {"reason": reason, "unseen": unseen}


def node_of(store, node, containers, losses, sessions=((NOW_NS - SECOND_NS, None),), notes=None):
    """A node with a launch of each of its cgroups."""
    about = {"boot_id": f"boot-{node}", "kernel": "6", "wall_offset_ns": 0, "layers": "auto"}
    about |= {"attach_method": "multi", "hierarchy": "v2", "node": node, "notes": notes}
    launch = {"op": "launch", "api": "cuLaunchKernel", "kernel_name": "gemm", "weight": 1}
    launch |= {"pid": 1, "tid": 1, "comm": "python", "duration_ns": 1000, "timestamp_ns": NOW_NS}
    with StoreWriter(store, node=node, boot_id=f"boot-{node}") as writer:
        writer.replace("containers", pa.Table.from_pylist(containers))
        for number, (started_ns, ended_ns) in enumerate(sessions):
            row = about | {"session_id": str(number), "started_ns": started_ns}
            writer.replace("sessions", pa.Table.from_pylist([row | {"ended_ns": ended_ns}]))
        launches = [launch | {"cgroup_id": row["cgroup_id"]} for row in containers]
        writer.append("cuda_events", pa.Table.from_pylist(launches))
        writer.append("losses", pa.Table.from_pylist(losses))
        writer.seal(NOW_NS)


def told(store, tenant, sql="FROM cuda_events", **limits):
    """How many rows there are, and what is missing."""
    with Session(store, tenant=tenant, limits=QueryLimits(**limits)) as session:
        answer = session.ask(sql)
        return len(answer.rows()), text.incompleteness(answer.standing)


LATE = (
    "incomplete: cuda events of {} missing for 1 s from 2026-09-21 14:13:20.000 UTC "
    "(probes came late)"
)


@pytest.fixture
def users(tmp_path):
    """A user with a container of their own within what the host gave them, and neighbours."""
    slice_ = "/user.slice/user-1000.slice"
    containers = [
        container(USER, "user/1000", cgroup_path=slice_),
        container(NESTED, "user/1000", cgroup_path=f"{slice_}/x", inner_container_id=INNER),
        container(NEIGHBOUR, "user/1001", cgroup_path=f"{slice_}1", inner_container_id="d" * 64),
        # What a user was given has its path for a name; what the user makes there is the user's.
        container(GIVEN, "/lab", cgroup_path="/lab"),
        container(WITHIN, "user/1002", cgroup_path="/lab/a/b", inner_container_id="e" * 64),
        container(TRAIN, "train", cgroup_path="/docker/train"),
    ]

    def made(*losses):
        node_of(tmp_path / "store", "node-a", containers, losses)
        return tmp_path / "store"

    return made


@pytest.mark.parametrize("guarded", [False, True])
def test_a_hole_of_the_outermost_cgroup_is_told_of_each_within(users, guarded):
    store = users(hole(USER), hole(GIVEN))
    told_of = {
        name: told(store, name, guarded=guarded) for name in ("user/1000", INNER[:12], "eeee")
    }
    assert told_of == {
        "user/1000": (2, [LATE.format("user/1000")]),
        INNER[:12]: (1, [LATE.format("user/1000")]),
        "eeee": (1, [LATE.format("user/1002")]),
    }
    for other in ("dddd", "train"):
        assert told(store, other, guarded=guarded) == (1, [])


def test_what_the_outermost_cgroup_lost_and_has_is_not_that_of_one_within(users):
    store = users(
        counts(USER, seen=1009, stored=1000, lost=9, reason="ring full"),
        counts(NESTED, seen=7, stored=7),
    )
    with Session(store, tenant=INNER) as session:
        (loss,) = session.standing(["cuda_events"]).losses
        assert (loss.seen, loss.lost) == (7, 0)
        assert session.ask("SELECT sum(seen)::BIGINT AS n FROM losses").rows() == [{"n": 7}]
    with Session(store, tenant="user/1000") as session:
        (loss,) = session.standing(["cuda_events"]).losses
        assert (loss.seen, loss.lost) == (1016, 9)


@pytest.fixture
def fleet(tmp_path):
    """`train` is on node-a alone; of node-b much is unknown. `slurm/7` is on both."""
    store = tmp_path / "fleet"
    job = {"scope": "fleet", "slurm_job": "7"}
    node_of(
        store,
        "node-a",
        [
            container(TRAIN, "train"),
            container(31, "slurm/7", **job),
            container(NOBODY_A, "unknown"),
        ],
        [counts(TRAIN, seen=1, stored=1)],
    )
    refused = {"hooks_refused": {"cuda_odd": "not seen: odd calls (why not)"}}
    node_of(
        store,
        "node-b",
        [
            container(SERVE, "serve", "node-b"),
            container(37, "slurm/7", "node-b", **job),
            container(NOBODY_B, "unknown", "node-b"),
        ],
        [hole(NOBODY_B, "facts lost", unseen=13)],
        ((NOW_NS - 3 * MINUTE_NS, NOW_NS - 2 * MINUTE_NS), (NOW_NS - MINUTE_NS, None)),
        json.dumps(refused),
    )
    return store


def test_a_hole_of_another_node_is_not_told_of_a_tenant_that_is_not_there(fleet):
    assert told(fleet, "train@node-a") == (1, [])
    assert told(fleet, "train@node-a", "FROM totals") == (0, [])
    for tenant, rows in (("serve@node-b", 1), ("slurm/7", 2)):
        found, lines = told(fleet, tenant)
        assert found == rows
        assert [line.partition(" for ")[0] for line in lines] == [
            "incomplete: not seen: odd calls",
            "incomplete: 13 names and identities of somebody missing",
            "incomplete: nothing recorded",
        ]


def test_a_hole_of_nobody_on_its_own_node_is_told_of_a_tenant(fleet):
    with StoreWriter(fleet, node="node-a", boot_id="boot-node-a") as writer:
        writer.append("losses", pa.Table.from_pylist([hole(NOBODY_A, "facts lost", unseen=17)]))
        writer.seal(NOW_NS)
    _, lines = told(fleet, "train@node-a")
    assert [line.partition(" missing")[0] for line in lines] == [
        "incomplete: 17 names and identities of somebody"
    ]
