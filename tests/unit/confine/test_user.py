"""Which user a recorder becomes."""

import os
import pwd

import pytest

from cotenant.confine import user
from cotenant.confine.capabilities import Capability
from cotenant.confine.user import USER_ID, RecorderUser, become
from cotenant.errors import Unsupported, UsageError


def users(monkeypatch, **known):
    """The host knows these users, by name."""

    def by_name(name):
        uid, gid = known[name]
        return pwd.struct_passwd((name, "x", uid, gid, "", "/", "/bin/false"))

    monkeypatch.setattr(user.pwd, "getpwnam", by_name)
    monkeypatch.setattr(
        user.pwd,
        "getpwuid",
        lambda uid: by_name(next((n for n, k in known.items() if k[0] == uid), "")),
    )


def test_it_is_cotenant_where_there_is_one_and_its_number_elsewhere(monkeypatch):
    users(monkeypatch, cotenant=(998, 997))
    assert RecorderUser.chosen(None) == RecorderUser(998, 997, "cotenant")
    users(monkeypatch)
    assert RecorderUser.chosen(None) == RecorderUser(USER_ID, USER_ID)
    assert str(RecorderUser.chosen(None)) == "user 65520"


def test_another_is_chosen_by_name_or_number(monkeypatch):
    users(monkeypatch, watcher=(700, 701))
    assert (
        RecorderUser.chosen("watcher")
        == RecorderUser.chosen("700")
        == RecorderUser(700, 701, "watcher")
    )
    assert RecorderUser.chosen("4242") == RecorderUser(4242, 4242)


@pytest.mark.parametrize("asked", ["root", "0", "toor", "wheel"])
def test_nobody_with_roots_rights_is_chosen(monkeypatch, asked):
    users(monkeypatch, root=(0, 0), toor=(0, 5), wheel=(5, 0))
    with pytest.raises(UsageError, match=f"--user {asked}: it has root's rights; name another"):
        RecorderUser.chosen(asked)


@pytest.mark.parametrize("asked", ["nemo", "-1", "4294967295", "9" * 30, "\u0664\u0662"])
def test_who_is_not_there_is_refused(monkeypatch, asked):
    users(monkeypatch)
    with pytest.raises(UsageError, match="no such user; create it, or name another"):
        RecorderUser.chosen(asked)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another")
@pytest.mark.parametrize("keep", [(), (Capability.DAC_READ_SEARCH,)])
def test_there_is_no_way_back_and_nobody_looks_in(keep):
    child = os.fork()
    if child == 0:
        become(RecorderUser(4242, 4243), keep)
        for back in (
            lambda: os.setuid(0),
            lambda: os.setgid(0),
            lambda: become(RecorderUser(1, 1)),
        ):
            try:
                back()
            except (PermissionError, Unsupported):
                continue
            os._exit(1)
        seen = (os.getresuid(), os.getresgid(), os.getgroups(), os.stat("/proc/self/fd").st_uid)
        os._exit(0 if seen == ((4242,) * 3, (4243,) * 3, [], 0) else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
