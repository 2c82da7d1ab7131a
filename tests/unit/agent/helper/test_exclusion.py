"""Who asked to be left alone is, by path or by name, whatever bytes the path has."""

import errno
import mmap
import os

import pytest

from cotenant.agent.config import Config
from cotenant.agent.helper import exclusion
from cotenant.agent.helper.fair_queue import PassedOver
from cotenant.agent.protocol.reports import WorkPassedOver
from cotenant.identity import Names, TenantRule, parse_path
from cotenant.identity.text import path_text
from cotenant.identity.walk import Mount

PATH = path_text(b"/bad\xff/docker-" + b"c" * 64 + b".scope")


@pytest.fixture
def excluded(monkeypatch):
    """The kernel's list."""
    found = set()
    monkeypatch.setattr(exclusion, "mounts", list)
    monkeypatch.setattr(exclusion.syscalls, "map_update", lambda fd, key, value: found.add(key))
    monkeypatch.setattr(exclusion.syscalls, "map_delete", lambda fd, key: found.discard(key))
    return found


def begin(*patterns, rules=(), passed_over=None):
    page = os.memfd_create("controls")
    os.truncate(page, mmap.PAGESIZE)
    config = Config(exclude=patterns, rules=rules)
    return exclusion.Exclusion(-1, page, config, passed_over or PassedOver())


@pytest.mark.parametrize("pattern", ["*/bad\\xff/*", "trainer"])
def test_a_path_that_is_no_utf8_is_excluded_by_path_and_by_name(excluded, pattern):
    kept = begin(pattern)
    kept.born(0, 23, PATH)
    kept.named(parse_path(PATH).subject_path, Names("docker", name="trainer", confirmed=True))

    assert excluded == {(23).to_bytes(8, "little")}


OUTERMOST = "/user.slice/user-1000.slice"
USERS = f"{OUTERMOST}/user@1000.service"
ID = "c" * 64


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        (f"{USERS}/app.slice/jupyter-7.service", "*jupyter-*"),
        (f"{USERS}/user.slice/libpod-{ID}.scope/team-secret", "*/team-secret"),
        (f"{USERS}/system.slice/slurmstepd.scope/job_4711/step_0", "*job_4711*"),
        (f"/system.slice/docker-{ID}.scope/jupyter-7.service", "*/jupyter-*"),
        (f"/kubepods.slice/kubepods-pod1_2.slice/cri-containerd-{ID}.scope/secret", "*/secret"),
        ("/system.slice/slurmstepd.scope/job_7/step_0/user/task_0/team-secret", "*team-secret*"),
        ("/system.slice/batch.service/team-secret", "*team-secret*"),
    ],
)
def test_nobody_hides_behind_a_cgroup_that_they_made_themselves(excluded, path, pattern):
    begin(pattern).born(0, 23, path)
    assert not excluded


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        (f"{USERS}/app.slice/x.service", "user/1000"),
        (f"{USERS}/app.slice/x.service", "/user.slice/user-1000.slice"),
        (f"/system.slice/docker-{ID}.scope/inside", f"*/docker-{ID}.scope"),
        ("/system.slice/jupyter-7.service/worker", "jupyter-*.service"),
        ("/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0", "slurm/4711"),
        ("/batch.slice/nightly", "/batch.slice/*"),
    ],
)
def test_what_the_host_calls_somebody_excludes_all_that_is_theirs(excluded, path, pattern):
    begin(pattern).born(0, 23, path)
    assert excluded


OWN = Names("podman", name="team-secret", confirmed=True, labels=(("team", "secret"),))


@pytest.mark.parametrize(
    ("path", "pattern", "hides"),
    [
        (f"{USERS}/user.slice/libpod-{ID}.scope", "team-secret", False),
        (f"{USERS}/user.slice/libpod-{ID}.scope", "team: *", False),
        (f"/system.slice/docker-{ID}.scope", "team: *", False),
        (f"/system.slice/docker-{ID}.scope", "team-secret", True),
        ("/system.slice/slurmstepd.scope/job_7/step_0", "team-secret", False),
    ],
)
def test_nobody_hides_behind_a_label_or_a_name_of_their_own(excluded, path, pattern, hides):
    rule = TenantRule("team: {label}", label="team")
    kept = begin(pattern, rules=(rule,))
    kept.born(0, 23, path)
    kept.named(parse_path(path).subject_path, OWN)
    assert bool(excluded) == hides


def test_nobody_hides_behind_a_rule_for_a_path_of_their_own(excluded):
    rules = (TenantRule("hidden", path="*/team-secret*"),)
    kept = begin("hidden", rules=rules)
    kept.born(0, 23, f"{USERS}/app.slice/team-secret")
    kept.born(0, 29, "/batch.slice/team-secret")

    assert excluded == {(29).to_bytes(8, "little")}


def test_nobody_hides_below_a_directory_that_was_given_to_them(excluded, monkeypatch, tmp_path):
    given = tmp_path / "given"
    (given / "team-secret" / "job").mkdir(parents=True)
    os.chown(given, 1000, 1000)
    (tmp_path / "team-secret").mkdir()
    monkeypatch.setattr(exclusion, "mounts", lambda: [Mount(0, (), tmp_path, "/")])
    monkeypatch.setattr(exclusion, "survey", lambda *_: 0)
    monkeypatch.setattr(exclusion, "walk", lambda _: ())
    kept = begin("*team-secret*")
    kept.born(0, 23, "/given/team-secret")
    kept.born(0, 29, "/given/team-secret/job")
    kept.born(0, 31, "/team-secret")

    assert excluded == {(31).to_bytes(8, "little")}


CONTAINER = f"/system.slice/docker-{ID}.scope"
ROOM = 23


def keys(*ids):
    return {number.to_bytes(8, "little") for number in ids}


@pytest.fixture
def few(excluded, monkeypatch):
    """A list with little room, as the kernel keeps it."""

    def update(fd, key, value):
        if len(excluded | {key}) > ROOM:
            raise OSError(errno.E2BIG, "update a map: Argument list too long")
        excluded.add(key)

    monkeypatch.setattr(exclusion.syscalls, "map_update", update)
    monkeypatch.setattr(exclusion, "EXCLUDED_MAX", ROOM)
    return excluded


def test_cgroups_without_end_of_one_who_is_excluded_take_no_room_of_others(few):
    passed_over = PassedOver()
    kept = begin("user/1000", "user/1001", "docker-*", passed_over=passed_over)
    for number in range(101):
        kept.born(0, 100 + number, f"{USERS}/app.slice/{number}" if number else OUTERMOST)
    for number in range(3):
        kept.born(0, 300 + number, OUTERMOST.replace("1000", "1001") + f"/{number}")
    kept.born(0, 400, CONTAINER)
    # Half of it, as much of the rest as is still free, and a place for whoever comes.
    assert few == keys(*range(100, 112), 300, 301, 302, 400)
    assert passed_over.take_news() == WorkPassedOver({"exclusions": {OUTERMOST: 101 - 12}})


def test_room_is_free_again_when_cgroups_are_gone(few):
    kept = begin("user/1000")
    for number in range(100, 120):
        kept.born(0, number, f"{USERS}/{number}")
    for number in range(100, 120):
        kept.gone(0, number, f"{USERS}/{number}")
    assert few == set()
    for number in range(200, 220):
        kept.born(0, number, f"{USERS}/{number}")
    assert few == keys(*range(200, 212))


def test_the_outermost_cgroup_of_a_tenant_has_room_before_those_within(few):
    kept = begin("trainer")
    kept.born(0, 1000, CONTAINER)
    for number in range(101):
        kept.born(0, 999 - number, f"{CONTAINER}/{number}")
    assert not few
    kept.named(CONTAINER, Names("docker", name="trainer", confirmed=True))
    assert keys(1000) < few
    assert len(few) == 12


def test_a_list_that_is_full_before_its_time_ends_nothing(few, monkeypatch):
    monkeypatch.setattr(exclusion, "EXCLUDED_MAX", 1 << 16)
    kept = begin("user/1000")
    for number in range(101):
        kept.born(0, 100 + number, f"{USERS}/{number}")
    kept.gone(0, 100, f"{USERS}/0")
    kept.born(0, 500, f"{USERS}/x")
    assert few == keys(*range(101, 100 + ROOM), 500)
