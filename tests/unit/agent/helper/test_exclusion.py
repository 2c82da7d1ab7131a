"""Who asked to be left alone is, by path or by name, whatever bytes the path has."""

import mmap
import os

import pytest

from cotenant.agent.config import Config
from cotenant.agent.helper import exclusion
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
    return found


def begin(*patterns, rules=()):
    page = os.memfd_create("controls")
    os.truncate(page, mmap.PAGESIZE)
    return exclusion.Exclusion(-1, page, Config(exclude=patterns, rules=rules))


@pytest.mark.parametrize("pattern", ["*/bad\\xff/*", "trainer"])
def test_a_path_that_is_no_utf8_is_excluded_by_path_and_by_name(excluded, pattern):
    kept = begin(pattern)
    kept.born(0, 23, PATH)
    kept.named(parse_path(PATH).subject_path, Names("docker", name="trainer", confirmed=True))

    assert excluded == {(23).to_bytes(8, "little")}


USERS = "/user.slice/user-1000.slice/user@1000.service"
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
