"""Who asked to be left alone is, by path or by name, whatever bytes the path has."""

import mmap
import os

import pytest

from cotenant.agent.config import Config
from cotenant.agent.helper import exclusion
from cotenant.identity import Names, parse_path
from cotenant.identity.text import path_text

PATH = path_text(b"/bad\xff/docker-" + b"c" * 64 + b".scope")


@pytest.fixture
def excluded(monkeypatch):
    """The kernel's list."""
    found = set()
    monkeypatch.setattr(exclusion, "mounts", list)
    monkeypatch.setattr(exclusion.syscalls, "map_update", lambda fd, key, value: found.add(key))
    return found


def begin(*patterns):
    page = os.memfd_create("controls")
    os.truncate(page, mmap.PAGESIZE)
    return exclusion.Exclusion(-1, page, Config(exclude=patterns))


@pytest.mark.parametrize("pattern", ["*/bad\\xff/*", "trainer"])
def test_a_path_that_is_no_utf8_is_excluded_by_path_and_by_name(excluded, pattern):
    kept = begin(pattern)
    kept.born(0, 23, PATH)
    kept.named(parse_path(PATH).subject_path, Names("docker", name="trainer", confirmed=True))

    assert excluded == {(23).to_bytes(8, "little")}
