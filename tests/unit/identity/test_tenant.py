"""One tenant per cgroup, by a rule that operators can read and override."""

import duckdb
import pytest

from cotenant.identity import (
    Names,
    TenantRule,
    excluded,
    matching_rows,
    parse_path,
    tenancy,
    tenant_predicate,
)

A, B = "a" * 64, "b" * 64
UID = "98005c3b-b650-4efe-8b91-2164d784397f"
POD = f"/kubepods/pod{UID}/{A}"
NAMED = Names("docker", name="trainer", confirmed=True, labels=(("team", "blue"),))
IN_POD = Names(
    "containerd",
    name="main",
    pod="trainer-0",
    namespace="team-b",
    pod_uid=UID,
    confirmed=True,
    pod_confirmed=True,
)


@pytest.mark.parametrize(
    ("path", "names", "expected"),
    [
        ("/", None, ("host", "host", "host")),
        (f"/docker/{A}", None, (A[:12], A, "host")),
        (f"/docker/{A}", NAMED, ("trainer", A, "host")),
        (POD, None, (f"pod/{UID}", A, "unverified")),
        (POD, IN_POD, ("team-b/trainer-0", A, "host")),
        (POD, NAMED, ("trainer", A, "unverified")),
        ("/ns/train", None, ("train", "train", "unverified")),
        ("/system.slice/ssh.service", None, ("ssh.service", "ssh.service", "host")),
        (
            f"/srv.slice/web.service/libpod-payload-{A}",
            None,
            ("web.service", "web.service", "host"),
        ),
        (f"/srv.slice/web.service/libpod-payload-{A}", NAMED, ("trainer", A, "host")),
        ("/system.slice/slurmstepd.scope/job_7/step_0", None, ("slurm/7", "slurm/7", "host")),
        ("/pbs_jobs.service/jobid/12.srv", None, ("pbs/12", "pbs/12", "host")),
        ("/user.slice/user-7.slice/session-1.scope", None, ("user/7", "user/7", "host")),
        (f"/docker/{A}/docker/{B}", NAMED, ("trainer", A, "nested")),
        ("/team-a", None, ("/team-a", "/team-a", "host")),
    ],
)
def test_the_outermost_name_of_the_host_is_the_tenant(path, names, expected):
    whose = tenancy(parse_path(path), names, path=path)

    assert (whose.tenant, whose.container_id, whose.trust) == expected


@pytest.mark.parametrize("name", ["host", "kernel", "unknown", "ssh.service", "a/b"])
def test_a_containers_name_cannot_pass_for_another_kind_of_tenant(name):
    names = Names("docker", name=name, confirmed=True)

    assert tenancy(parse_path(f"/docker/{A}"), names).tenant == f"container:{name}"


def test_a_name_without_confirmation_is_not_shown():
    forged = Names("docker", name="victim")

    assert tenancy(parse_path(f"/elsewhere/{A}"), forged).tenant == A[:12]


@pytest.mark.parametrize(
    ("rule", "path", "names", "tenant"),
    [
        (TenantRule("{label}", label="team"), f"/docker/{A}", NAMED, "blue"),
        (TenantRule("b", label="team=bl*"), f"/docker/{A}", NAMED, "b"),
        (TenantRule("{namespace}", namespace="team-*"), POD, IN_POD, "team-b"),
        (TenantRule("ops", unit="ssh*"), "/system.slice/ssh.service", None, "ops"),
        (TenantRule("lab", path="/team-*"), "/team-a", None, "lab"),
        (
            TenantRule("{account}", slurm_account="physics"),
            "/system.slice/slurmstepd.scope/job_7",
            Names("slurm", slurm_account="physics", confirmed=True),
            "physics",
        ),
        (TenantRule("no", label="team=red"), f"/docker/{A}", NAMED, "trainer"),
        (TenantRule("no", label="team", unit="x"), f"/docker/{A}", NAMED, "trainer"),
        (TenantRule("no"), f"/docker/{A}", NAMED, "trainer"),
    ],
)
def test_an_operators_rule_overrides_where_all_its_patterns_match(rule, path, names, tenant):
    assert tenancy(parse_path(path), names, path=path, rules=[rule]).tenant == tenant


def test_the_first_rule_that_applies_decides():
    rules = [TenantRule("one", path="/x"), TenantRule("two", path="/t*"), TenantRule("3", path="*")]

    assert tenancy(parse_path("/team"), path="/team", rules=rules).tenant == "two"


ROWS = [
    {"cgroup_id": 1, "tenant": "host", "container_id": "host"},
    {"cgroup_id": 2, "tenant": "trainer", "container_id": A, "name": "trainer"},
    {"cgroup_id": 3, "tenant": "t/p", "container_id": B, "pod": "p", "namespace": "t"},
    {"cgroup_id": 5, "tenant": "slurm/7", "container_id": "slurm/7", "slurm_job": "7"},
    {"cgroup_id": 7, "tenant": "s.service", "container_id": "s.service", "unit": "s.service"},
    {"cgroup_id": 11, "tenant": "aaaa", "container_id": "c" * 64, "name": "aaaa"},
    {"cgroup_id": 13, "tenant": "user/al", "container_id": "user/al", "user": "al"},
    {"cgroup_id": 17, "tenant": "z", "container_id": "d" * 64, "inner_container_id": "e" * 64},
]
ASKED = {
    "trainer": [2],
    "t/p": [3],
    "p": [3],
    "7": [5],
    "slurm/7": [5],
    "s": [7],
    "s.service": [7],
    "aaaa": [11],  # A tenant's name, although another id begins so.
    "aaaaa": [2],
    "bbbbbbbbbbbb": [3],
    "bbb": [],
    "al": [13],
    "eeee": [17],
    "nobody": [],
    "": [],
    "' or 1=1 --": [],
}
COLUMNS = [
    "tenant",
    "container_id",
    "inner_container_id",
    "name",
    "pod",
    "namespace",
    "unit",
    "slurm_job",
    "user",
]


@pytest.mark.parametrize("text", ASKED)
def test_a_tenant_is_found_by_whatever_name_the_user_knows(text):
    assert [row["cgroup_id"] for row in matching_rows(ROWS, text)] == ASKED[text]


@pytest.mark.parametrize("text", ASKED)
def test_sql_finds_the_same_rows(text):
    sql, parameters = tenant_predicate(text)
    with duckdb.connect() as database:
        columns = ", ".join(f'"{name}" varchar' for name in COLUMNS)
        database.execute(f"create table containers (cgroup_id bigint, {columns})")
        marks = ", ".join("?" * (len(COLUMNS) + 1))
        for row in ROWS:
            values = [row["cgroup_id"], *(row.get(name) for name in COLUMNS)]
            database.execute(f"insert into containers values ({marks})", values)
        database.execute("create table events as select cgroup_id from containers")
        found = database.execute(
            f"select cgroup_id from events where {sql} order by 1", parameters
        ).fetchall()

    assert [cgroup_id for (cgroup_id,) in found] == ASKED[text]


def test_an_exclude_pattern_is_held_against_every_name():
    row = {"tenant": "t/p", "pod": "p", "namespace": "t", "cgroup_path": "/kubepods/x"}

    assert [excluded(row, [p]) for p in ("t/*", "p", "t", "/kubepods/*", "q")] == [True] * 4 + [
        False
    ]
