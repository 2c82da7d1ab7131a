"""A tenant names itself as it likes: no terminal is told anything by it."""

import contextlib
import io
import json
import os
import stat

import pyarrow as pa
import pytest

from cotenant.store.writer import StoreWriter
from cotenant.views.cli import main

PATH = "/a\x1b[2J\x9b31m\rb\x7fü"
SPELLED = r"/a\x1b[2J\x9b31m\x0db\x7fü"
QUESTION = "SELECT cgroup_path FROM containers"


class Terminal(io.StringIO):
    """Standard output that somebody looks at."""

    def isatty(self):
        return True


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    root = tmp_path_factory.mktemp("screen") / "store"
    with StoreWriter(root, node="node-a", boot_id="boot-1") as writer:
        who = {"cgroup_id": 7, "tenant": PATH, "container_id": PATH, "cgroup_path": PATH}
        who |= {"node": "node-a", "boot_id": "boot-1"}
        writer.replace("containers", pa.Table.from_pylist([who]))
        writer.seal(1_790_000_000_000_000_000)
    return root


def said(out, *words):
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        assert main([*map(str, words)]) == 0
    return out.getvalue()


def test_csv_has_no_control_characters_unless_asked_for(hostile):
    words = ("sql", "--format", "csv", QUESTION, "--store", hostile)
    for out in (Terminal(), io.StringIO()):
        assert said(out, *words) == f'"cgroup_path"\n"{SPELLED}"\n'
    assert said(io.StringIO(), *words, "--raw") == f'"cgroup_path"\n"{PATH}"\n'


def test_json_on_a_terminal_has_no_control_characters(hostile):
    words = ("sql", "--format", "json", QUESTION, "--store", hostile)
    shown = said(Terminal(), *words)
    assert shown.replace("\n", "").isprintable()
    json.loads(shown)
    assert json.loads(said(io.StringIO(), *words)) == [{"cgroup_path": PATH}]


@pytest.mark.parametrize(
    "words",
    [
        ("tenants", "--all", "--json"),
        ("tenants", "--all"),
        ("sql", QUESTION),
        ("explain", "--json"),
    ],
)
def test_no_verb_passes_on_a_tenants_control_characters(hostile, words):
    shown = said(Terminal(), *words, "--store", hostile)
    assert shown.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("kind", "file", "part"),
    [
        ("csv", "containers.csv", "containers.part"),
        ("parquet", "containers.parquet", "containers.part"),
        ("perfetto", "out", ".out.part"),
    ],
)
def test_an_export_is_its_owners_and_goes_through_no_link(hostile, tmp_path, kind, file, part):
    precious = tmp_path / "precious"
    precious.write_text("precious")
    place = tmp_path / "place"
    place.mkdir()
    (place / part).symlink_to(precious)
    output = place / "out" if kind == "perfetto" else place
    old = os.umask(0)
    try:
        said(io.StringIO(), "export", kind, "--output", output, "--force", "--store", hostile)
    finally:
        os.umask(old)
    assert precious.read_text() == "precious"
    made = (place / file).lstat()
    assert stat.S_ISREG(made.st_mode)
    assert stat.S_IMODE(made.st_mode) == 0o600
    assert SPELLED.encode() in (place / file).read_bytes() or kind != "csv"
