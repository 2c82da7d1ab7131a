"""A store that somebody else prepared: nothing outside of it is written, emptied or removed."""

import json
import os
import stat

import pytest

from cotenant.agent.doctor import _store
from cotenant.confine.user import RecorderUser
from cotenant.errors import StoreError
from cotenant.store.compaction import Compactor
from cotenant.store.layout import is_segment, mark
from tests.unit.store.conftest import NODE

NOW_NS = 1_790_000_000_000_000_000  # 2026-09-21, in the afternoon.
STRANGER = 65534
ROWS = 101
FOLDER = f"cuda_events/date=2020-01-01/node={NODE}"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture
def precious(tmp_path):
    """A file that is not the store's, in a directory of its own."""
    file = tmp_path / "etc" / "shadow"
    file.parent.mkdir()
    file.write_text("precious")
    yield file
    assert file.read_text() == "precious"
    assert [entry.name for entry in file.parent.iterdir()] == ["shadow"]


@pytest.fixture
def prepared(root):
    """A directory with the mark of a store."""
    root.mkdir(mode=0o750)
    (root / "store.json").write_bytes(mark(1))
    return root


def refused(open_writer, root):
    with pytest.raises(StoreError) as caught:
        open_writer(root)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@needs_root
def test_a_store_of_somebody_else_is_refused(open_writer, prepared, precious):
    (prepared / f".lock-{NODE}").symlink_to(precious)
    os.chown(prepared, STRANGER, -1)
    assert refused(open_writer, prepared) == (
        f"{prepared} belongs to user 65534, who could redirect writes; "
        "`chown` it to user 0, or choose another --store"
    )


@needs_root
def test_an_empty_directory_of_somebody_else_is_refused(open_writer, root):
    root.mkdir()
    os.chown(root, STRANGER, -1)
    assert "belongs to user 65534" in refused(open_writer, root)
    assert list(root.iterdir()) == []


@needs_root
def test_the_doctor_says_that_a_store_is_somebody_elses(root):
    root.mkdir()
    user = RecorderUser(65520, 65520)
    assert _store(root, user).holds
    os.chown(root, user.uid, -1)
    assert _store(root, user).holds
    os.chown(root, STRANGER, -1)
    check = _store(root, user)
    assert not check.holds
    assert check.found == f"{root} belongs to user 65534, who could redirect writes"
    assert check.advice == "`chown` it to user 65520, or choose another --store"


@needs_root
@pytest.mark.parametrize("name", ["manifest", "cuda_events", "cuda_events/date=2026-09-21"])
def test_a_folder_of_somebody_else_is_refused(open_writer, prepared, cuda_rows, name):
    (prepared / name).mkdir(parents=True)
    os.chown(prepared / name, STRANGER, -1)
    if name == "manifest":
        assert "manifest belongs to user 65534" in refused(open_writer, prepared)
        return
    store = open_writer(prepared)
    store.append("cuda_events", cuda_rows(ROWS))
    with pytest.raises(StoreError, match=f"{name} belongs to user 65534"):
        store.seal(NOW_NS)


@needs_root
def test_a_link_of_somebody_else_is_refused_and_one_of_ours_is_not(open_writer, prepared):
    theirs, ours = prepared.with_name("theirs"), prepared.with_name("ours")
    theirs.symlink_to(prepared)
    ours.symlink_to(prepared)
    os.lchown(theirs, STRANGER, -1)
    assert "is a link of user 65534, who can redirect it" in refused(open_writer, theirs)
    assert "is a link of user 65534, who can redirect it" in refused(open_writer, theirs / "below")
    open_writer(ours)


def test_a_store_that_everybody_may_write_to_is_refused(open_writer, prepared):
    prepared.chmod(0o777)
    assert "is world-writable; `chmod o-w" in refused(open_writer, prepared)


def test_an_empty_directory_of_ours_is_closed_to_others_first(open_writer, root):
    root.mkdir()
    root.chmod(0o777)
    open_writer(root)
    assert stat.S_IMODE(root.stat().st_mode) == 0o750


def test_a_group_may_have_been_given_the_right_to_write(open_writer, prepared):
    prepared.chmod(0o2770)
    open_writer(prepared)


def test_a_place_where_everybody_renames_is_refused(open_writer, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    assert "is world-writable without the sticky bit" in refused(open_writer, shared / "store")
    assert not (shared / "store").exists()
    shared.chmod(0o1777)
    open_writer(shared / "store")


@needs_root
def test_a_place_that_somebody_else_made_for_all_to_find_is_refused(open_writer, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, STRANGER, -1)
    open_writer(home / "store")
    tmp_path.chmod(0o1777)
    assert refused(open_writer, home / "other") == (
        f"{home} belongs to user 65534, in a world-writable directory; choose another --store"
    )


def test_a_lock_that_is_a_link_is_not_followed(open_writer, prepared, precious):
    (prepared / f".lock-{NODE}").symlink_to(precious)
    assert "it is a link" in refused(open_writer, prepared)


def test_a_lock_that_is_another_file_too_is_not_emptied(open_writer, prepared, precious):
    (prepared / f".lock-{NODE}").hardlink_to(precious)
    assert "has another name too" in refused(open_writer, prepared)


def test_a_part_that_is_a_link_is_not_followed(open_writer, root, precious, stored, cuda_rows):
    root.mkdir()
    precious.chmod(0o600)
    (root / ".store.json.part").symlink_to(precious)
    (root / "manifest").mkdir()
    (root / "manifest" / f".{NODE}.json.part").symlink_to(precious)
    store = open_writer(root)
    store.append("cuda_events", cuda_rows(ROWS))
    store.seal(NOW_NS)
    assert len(stored("cuda_events")) == ROWS
    assert stat.S_IMODE(precious.stat().st_mode) == 0o600


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_nothing_behind_a_link_is_removed_or_taken(open_writer, prepared, tmp_path, depth):
    outside = tmp_path / "outside"
    names = FOLDER.split("/")
    theirs = outside.joinpath(*names[depth:])
    theirs.mkdir(parents=True)
    (theirs / "1-1.parquet").write_text("precious")
    link = prepared.joinpath(*names[:depth])
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside)
    store = open_writer(prepared)
    assert store.segments == ()
    assert (theirs / "1-1.parquet").read_text() == "precious"


def test_nothing_is_written_behind_a_link(open_writer, prepared, precious, cuda_rows):
    (prepared / "cuda_events").symlink_to(precious.parent)
    store = open_writer(prepared)
    store.append("cuda_events", cuda_rows(ROWS))
    with pytest.raises(StoreError, match="cuda_events is a link; remove it"):
        store.seal(NOW_NS)
    (prepared / "cuda_events").unlink()
    assert store.seal(NOW_NS) == {"cuda_events": ROWS}


def test_lists_that_name_what_is_no_segment_are_not_believed(open_writer, prepared, precious):
    way = os.path.relpath(precious, prepared)
    (prepared / "manifest").mkdir()
    entry = {"table": "cuda_events", "path": way, "rows": 1, "bytes": 1, "min_ns": 1, "max_ns": 1}
    manifest = {"format": 1, "next": 7, "segments": [entry]}
    graves = [{"due_ns": 0, "remove": [way, str(precious)], "show": None}]
    (prepared / "manifest" / f"{NODE}.json").write_text(json.dumps(manifest))
    (prepared / "manifest" / f"{NODE}.graveyard").write_text(json.dumps(graves))
    store = open_writer(prepared)
    assert store.segments == ()
    assert not Compactor(store).step(NOW_NS)


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        (f"{FOLDER}/1-1.parquet", True),
        (f"{FOLDER}/.1-1.parquet.merged", True),
        (f"{FOLDER}/../1-1.parquet", False),
        ("cuda_events/date=1/../1-1.parquet", False),
        ("../date=1/node=a/1-1.parquet", False),
        ("/etc/date=1/node=a/1-1.parquet", False),
        (f"{FOLDER}/..", False),
    ],
)
def test_a_segment_lies_below_its_store(path, is_one):
    assert is_segment(path) is is_one
