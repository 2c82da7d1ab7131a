"""Files of tenants are opened below the tenant's root, and only plain ones."""

import mmap
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant.probes.roots import open_below, open_file, open_mapping, open_root


@pytest.fixture
def host() -> Iterator[int]:
    """The root directory of the host."""
    fd = os.open("/", os.O_PATH | os.O_DIRECTORY)
    yield fd
    os.close(fd)


@pytest.fixture
def tenant(tmp_path: Path) -> Iterator[int]:
    """A root directory with a secret beside it."""
    (tmp_path / "secret").write_text("host's")
    root = tmp_path / "root"
    (root / "lib").mkdir(parents=True)
    (root / "lib/plain").write_text("tenant's")
    (root / "secret").write_text("tenant's")
    fd = os.open(root, os.O_PATH | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def read(root: int, path: str) -> str:
    with os.fdopen(open_file(root, path)) as file:
        return file.read()


@pytest.mark.parametrize("path", ["/lib/plain", "lib/plain", "/../../lib/plain", "/lib/../secret"])
def test_a_path_is_resolved_below_the_root(tenant: int, path: str) -> None:
    assert read(tenant, path) == "tenant's"


@pytest.mark.parametrize("target", ["/secret", "../../secret", "/../../../secret"])
def test_a_link_never_leads_out_of_the_root(tenant: int, tmp_path: Path, target: str) -> None:
    (tmp_path / "root/lib/link").symlink_to(target)
    assert read(tenant, "/lib/link") == "tenant's"


def test_a_link_of_the_kernels_is_not_followed(host: int) -> None:
    with open(__file__) as file:
        link = f"/proc/self/fd/{file.fileno()}"
        assert os.path.samefile(link, __file__)
        with pytest.raises(OSError, match="symbolic links"):
            open_below(host, link, os.O_RDONLY)


def test_whatever_could_make_us_wait_is_refused(tenant: int, host: int, tmp_path: Path) -> None:
    root = tmp_path / "root"
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "socket"))
        for name in ("pipe", "socket", "lib"):
            with pytest.raises(OSError, match="not a plain file"):
                open_file(tenant, name)
    with pytest.raises(OSError, match="not a plain file"):
        open_file(host, "/dev/zero")


def test_what_is_not_there_is_named(tenant: int) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        open_file(tenant, "/lib/none")
    assert caught.value.filename == "/lib/none"


def test_our_own_root_is_the_root() -> None:
    root = open_root(os.getpid())
    try:
        assert os.path.samestat(os.fstat(root), os.stat("/"))
        assert not os.get_inheritable(root)
    finally:
        os.close(root)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may open what another process has mapped")
def test_a_file_that_is_mapped_is_found_though_its_name_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "deleted"
    path.write_bytes(b"mapped".ljust(mmap.PAGESIZE))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        path.unlink()
        lines = Path("/proc/self/maps").read_text().splitlines()
        (where,) = (line.split()[0] for line in lines if f"{path} (deleted)" in line)
        start, end = (int(number, 16) for number in where.split("-"))
        with os.fdopen(open_mapping(os.getpid(), start, end), "rb") as found:
            assert found.read() == mapped[:]
    with pytest.raises(FileNotFoundError):
        open_mapping(os.getpid(), start, end)
