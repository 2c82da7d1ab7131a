"""Which directories the mounts of the host are made of."""

from pathlib import Path

import pytest

from cotenant.agent.helper.discovery.mounts import Mounted, mount_table, mounted, overlay_layers

DOCKER = (
    b"712 29 0:52 / /var/lib/docker/overlay2/aa/merged rw,relatime shared:381 - overlay overlay "
    b"rw,lowerdir=/var/lib/docker/overlay2/l/ONE:/var/lib/docker/overlay2/l/TWO,"
    b"upperdir=/var/lib/docker/overlay2/aa/diff,workdir=/var/lib/docker/overlay2/aa/work"
)


def layers(line: bytes) -> tuple[str, ...]:
    (found,) = overlay_layers(line).values()
    return found


def test_each_layer_of_an_overlay_is_told_top_first() -> None:
    assert layers(DOCKER) == (
        "/var/lib/docker/overlay2/l/ONE",
        "/var/lib/docker/overlay2/l/TWO",
        "/var/lib/docker/overlay2/aa/diff",
    )


def test_layers_given_one_by_one_and_data_below_them_are_told_apart() -> None:
    line = b"1 2 0:5 / /m rw - overlay none ro,lowerdir+=/a,lowerdir+=/b,datadir+=/c"
    assert layers(line) == ("/a", "/b")
    assert layers(b"1 2 0:5 / /m rw - overlay none ro,lowerdir=/a:/b::/c") == ("/a", "/b")


def test_names_with_separators_in_them_are_whole() -> None:
    line = rb"1 2 0:5 / /m rw - overlay none ro,lowerdir=/a\:b\,c:/d\040e"
    assert layers(line) == ("/a:b,c", "/d e")


def test_an_overlay_is_searched_by_its_layers_where_all_can_be_found() -> None:
    lines = DOCKER + b"\n1 2 0:5 / /m rw - overlay none ro,lowerdir=l/ONE:/a\n"
    lines += b"3 2 0:6 / /proc rw - proc proc rw\n4 2 0:7 / /d\\040e rw - ext4 /dev/vda rw\n"
    merged = Mounted("/var/lib/docker/overlay2/aa/merged", layers(DOCKER))
    assert mounted(lines) == ([merged, Mounted("/m"), Mounted("/d e")], 0)
    assert mounted(lines, besides={"/m"}) == ([merged, Mounted("/d e")], 0)


def test_of_very_many_mounts_the_newest_are_told_and_the_others_counted() -> None:
    lines = b"".join(b"%d 1 0:5 / /m%d rw - tmpfs none rw\n" % (n, n) for n in range(100_003))
    found, left = mounted(lines, besides={"/m100002", "/m3"})
    assert [mount.point for mount in found] == [f"/m{n}" for n in range(99_746, 100_002)]
    assert left == 100_003 - 2 - 256


def test_a_table_is_read_no_further_than_a_mebibyte(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    line = b"1 1 0:5 / /%s rw - tmpfs none rw\n" % (b"a" * 4000)
    (tmp_path / "mountinfo").write_bytes(line * 1009)
    real = open
    monkeypatch.setattr("builtins.open", lambda _, how: real(tmp_path / "mountinfo", how))
    assert mount_table(1) == line * ((1 << 20) // len(line))


def test_other_mounts_have_no_layers() -> None:
    assert overlay_layers(b"29 1 254:0 / / rw - ext4 /dev/vda rw\nnonsense\n - overlay\n") == {}
