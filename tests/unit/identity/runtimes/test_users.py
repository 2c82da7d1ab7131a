"""Users of slices, by name."""

from cotenant.identity import parse_path, tenancy
from cotenant.identity.runtimes import UserSource
from tests.unit.identity.runtimes.samples import write


def test_the_user_of_a_slice_is_named(tmp_path):
    identity = parse_path("/user.slice/user-1000.slice/session-4.scope")
    write(tmp_path / "passwd", "alice:x:1000:1000::/:/bin/sh\n")
    names = UserSource(tmp_path / "passwd", getent=None).lookup(identity, "")

    assert tenancy(identity, names).tenant == "user/alice"
