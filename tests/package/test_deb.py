"""The Debian package: installed, used, removed."""

from pathlib import Path

import pytest

from tests.package.root import Root, made_root

TOKEN = "/etc/cotenant/token"
UNITS = "/lib/systemd/system"
KEPT = ("/var/lib/dpkg/", "/var/lib/systemd/deb-systemd-helper-", "/var/log/", "/var/cache/",
        "/etc/passwd", "/etc/group", "/etc/shadow", "/etc/gshadow", "/etc/subuid", "/etc/subgid",
        "/etc/.pwd.lock", "/run/adduser")  # fmt: skip


@pytest.fixture
def root(package: Path, tmp_path: Path) -> Root:
    base = made_root("bookworm", "bookworm,python3,python3-venv")
    return Root(base, tmp_path / "root", package.parent)


def files(root: Root) -> set[str]:
    """Every file there is, but for what dpkg and the user database write down."""
    listed = root.must("find", "/", "-xdev", "-type", "f", "-print")
    return {name for name in listed.splitlines() if not name.startswith(KEPT)}


def test_it_is_installed_used_and_removed(package: Path, root: Root) -> None:
    before = files(root)
    root.must("dpkg", "--install", f"/mnt/{package.name}")
    there = files(root) - before
    plain = {name.replace(f"/usr{UNITS}", UNITS) for name in there}
    assert {f"{UNITS}/cotenant.service", f"{UNITS}/cotenant-serve.service",
            f"{UNITS}/cotenant-serve.socket", "/usr/lib/sysusers.d/cotenant.conf",
            "/usr/lib/tmpfiles.d/cotenant.conf", TOKEN} <= plain  # fmt: skip
    assert any(name.startswith("/usr/share/man/man1/cotenant") for name in there)
    assert "/usr/share/bash-completion/completions/cotenant" in there
    assert root.must("stat", "-c", "%a %U %G", TOKEN) == "640 root cotenant\n"
    assert root.must("id", "-u", "cotenant") == "65520\n"
    assert "this host can be recorded" in root.must("cotenant", "doctor", "--store", "/var/tmp/s")
    assert root.must("cotenant", "--version").startswith("cotenant ")
    # Nothing that was used has left a file behind.
    assert files(root) - before == there
    root.must("dpkg", "--remove", "cotenant")
    assert files(root) - before == {TOKEN}
    root.must("dpkg", "--purge", "cotenant")
    assert files(root) == before
    assert "cotenant" not in root.must("cat", "/etc/passwd", "/etc/group")


def test_installed_anew_it_keeps_its_token(package: Path, root: Root) -> None:
    root.must("dpkg", "--install", f"/mnt/{package.name}")
    token = root.must("cat", TOKEN)
    root.must("dpkg", "--install", f"/mnt/{package.name}")
    assert root.must("cat", TOKEN) == token
    assert len(token.strip()) == 32
