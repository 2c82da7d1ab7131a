"""One tenant per cgroup, by a rule that operators can read and override."""

import pytest

from cotenant.identity import (
    Names,
    TenantRule,
    excluded,
    parse_path,
    tenancy,
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


def test_an_exclude_pattern_is_held_against_every_name():
    row = {"tenant": "t/p", "pod": "p", "namespace": "t", "cgroup_path": "/kubepods/x"}

    assert [excluded(row, [p]) for p in ("t/*", "p", "t", "/kubepods/*", "q")] == [True] * 4 + [
        False
    ]
