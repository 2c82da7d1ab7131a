"""Root gives a store away: all of it, and nothing that somebody planted there."""

import os
import stat
from pathlib import Path

import pytest

from cotenant.confine.capabilities import drop_capabilities
from cotenant.errors import StoreError
from cotenant.store.handover import StoreOwner, hand_over

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has something to give")

NOW_NS = 1_790_000_000_000_000_000
ROWS = 23
USER, GROUP, READERS, STRANGER = 65520, 65521, 65522, 65534
OURS = StoreOwner(USER, GROUP)


def give(root: Path, owner: StoreOwner = OURS) -> None:
    os.close(hand_over(root, owner))


def owners(root: Path) -> set[tuple[int, int]]:
    """Whose everything in a store is."""
    found = [path.lstat() for path in (root, *root.rglob("*"))]
    return {(status.st_uid, status.st_gid) for status in found}


@pytest.fixture
def written(open_writer, root, cuda_rows):
    """A store of root's, with rows."""
    store = open_writer(root)
    store.append("cuda_events", cuda_rows(ROWS))
    store.seal(NOW_NS)
    store.close()
    return root


@pytest.fixture
def precious(tmp_path):
    """A file of root's that has nothing to do with the store."""
    file = tmp_path / "precious"
    file.write_text("precious")
    return file


def test_a_new_store_belongs_to_its_writer_and_is_closed_to_others(root):
    give(root / "below")
    status = (root / "below").stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (USER, GROUP, 0o750)
    assert root.stat().st_uid == 0


def test_an_empty_directory_of_roots_becomes_a_store(root):
    root.mkdir()
    root.chmod(0o777)
    give(root)
    assert (root.stat().st_uid, stat.S_IMODE(root.stat().st_mode)) == (USER, 0o750)


def test_a_store_of_roots_is_taken_over_and_keeps_its_group(written):
    give(written)
    assert owners(written) == {(USER, 0)}
    give(written)
    assert owners(written) == {(USER, 0)}


def test_readers_of_another_group_read_what_is_there_and_what_comes(written):
    give(written, StoreOwner(USER, GROUP, READERS))
    assert owners(written) == {(USER, READERS)}
    folders = [path for path in (written, *written.rglob("*")) if path.is_dir()]
    assert all(folder.stat().st_mode & stat.S_ISGID for folder in folders)


def test_what_was_left_half_given_is_given(written):
    folder = next(written.glob("cuda_events/date=*/node=*"))
    os.chown(written, USER, GROUP)
    os.chown(written / "manifest", USER, GROUP)
    os.chown(next(folder.glob("*.parquet")), USER, GROUP)
    give(written)
    assert {uid for uid, _ in owners(written)} == {USER}


def test_links_are_not_followed(written, precious):
    folder = next(written.glob("cuda_events/date=*/node=*"))
    for place in (written, written / "manifest", written / "cuda_events", folder):
        (place / "planted").symlink_to(precious)
        (place / "planted_folder").symlink_to(precious.parent)
    give(written)
    assert (precious.stat().st_uid, precious.parent.stat().st_uid) == (0, 0)


def test_a_second_name_of_a_file_of_roots_is_not_given_away(written, precious):
    """By a writer that was taken over: in a directory that was its own already."""
    give(written)
    for place in (written, written / "manifest"):
        os.link(precious, place / "planted.json")
    give(written)
    assert precious.stat().st_uid == 0


def test_in_a_directory_that_others_may_write_to_a_second_name_is_not_given_away(written, precious):
    (written / "cuda_events").chmod(0o770)
    os.link(precious, written / "cuda_events" / "planted")
    give(written)
    assert precious.stat().st_uid == 0


def test_a_second_name_that_root_made_itself_is_given(written):
    segment = next(written.rglob("*.parquet"))
    os.link(segment, segment.with_name("again.parquet"))
    give(written)
    assert owners(written) == {(USER, 0)}


def test_what_is_neither_file_nor_directory_stays_as_it_is(written):
    os.mkfifo(written / "planted")
    (written / "lost+found").mkdir()
    give(written)
    assert (written / "planted").stat().st_uid == (written / "lost+found").stat().st_uid == 0


def test_a_directory_that_is_no_store_is_not_touched(root):
    root.mkdir()
    (root / "letters").write_text("mine")
    with pytest.raises(StoreError, match="is not empty and not a store"):
        give(root)
    assert owners(root) == {(0, 0)}


def test_a_store_of_somebody_else_is_refused(written):
    os.chown(written, STRANGER, -1)
    with pytest.raises(StoreError, match=r"belongs to user 65534, .* `chown` it to user 65520"):
        give(written)
    assert (written / "manifest").stat().st_uid == 0


def test_who_may_not_give_files_away_is_told_so(written):
    child = os.fork()
    if child == 0:
        drop_capabilities()
        try:
            give(written)
        except StoreError as error:
            os._exit(0 if "give CAP_CHOWN, or `chown -R 65520` it" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
