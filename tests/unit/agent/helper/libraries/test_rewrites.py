"""Files that are written to while they are probed."""

import os
import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant.agent.helper.libraries.rewrites import Rewrites


@pytest.fixture
def rewrites() -> Iterator[Rewrites]:
    made = Rewrites()
    yield made
    made.close()


def watched(rewrites: Rewrites, path: Path) -> int:
    path.write_bytes(b"old")
    fd = os.open(path, os.O_RDONLY)
    try:
        return rewrites.watch(fd)
    finally:
        os.close(fd)


def test_a_file_that_is_written_to_is_told_once(rewrites: Rewrites, tmp_path: Path) -> None:
    watches = [watched(rewrites, tmp_path / name) for name in ("a", "b", "c")]
    assert rewrites.take(watches) == set()
    for _ in range(3):
        (tmp_path / "b").write_bytes(b"new")
    assert select.select([rewrites.fd], [], [], 0)[0]
    assert [rewrites.written(watch) for watch in watches] == [False, True, False]
    assert rewrites.take(watches[:1]) == set()
    assert rewrites.take(watches) == {watches[1]}
    assert rewrites.take(watches) == set()


@pytest.mark.parametrize("how", ["renamed over", "removed", "read", "linked"])
def test_a_file_that_stays_as_it_is_was_not_written_to(
    how: str, rewrites: Rewrites, tmp_path: Path
) -> None:
    path = tmp_path / "a"
    watch = watched(rewrites, path)
    if how == "renamed over":
        (tmp_path / "new").write_bytes(b"new")
        (tmp_path / "new").rename(path)
    elif how == "removed":
        path.unlink()
    elif how == "read":
        path.read_bytes()
    else:
        (tmp_path / "link").hardlink_to(path)
    assert not rewrites.written(watch)


def test_what_is_forgotten_is_watched_no_more(rewrites: Rewrites, tmp_path: Path) -> None:
    watch = watched(rewrites, tmp_path / "a")
    rewrites.forget(watch)
    (tmp_path / "a").write_bytes(b"new")
    assert not rewrites.written(watch)
    again = watched(rewrites, tmp_path / "a")
    (tmp_path / "a").write_bytes(b"newer")
    assert rewrites.take([again]) == {again}


def test_whoever_writes_on_and_on_fills_nothing(rewrites: Rewrites, tmp_path: Path) -> None:
    for number in range(101):
        watch = watched(rewrites, tmp_path / f"{number}")
        (tmp_path / f"{number}").write_bytes(b"new")
        rewrites.forget(watch)
    assert rewrites.take(range(1000)) == set()
    assert rewrites._written == set()
    assert not select.select([rewrites.fd], [], [], 0)[0]


def test_where_there_is_no_watching_nothing_is_told(rewrites: Rewrites, tmp_path: Path) -> None:
    rewrites.close()
    watch = watched(rewrites, tmp_path / "a")
    assert watch < 0
    rewrites.forget(watch)
    assert rewrites.take([watch]) == set()
