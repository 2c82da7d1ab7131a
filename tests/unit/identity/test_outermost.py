"""Which cgroups are tenants, and below which nobody else is one."""

import pytest

from cotenant.identity.outermost import standing
from cotenant.schema.constants import TenantFlags

ID = "a" * 64
CLOSED, PLACE, WORKLOAD = TenantFlags.CLOSED, TenantFlags.PLACE, TenantFlags.WORKLOAD
POD = "/kubepods/burstable/pod11111111-1111-1111-1111-111111111111"


@pytest.mark.parametrize(
    ("path", "flags"),
    [
        ("/", None),
        (f"/docker/{ID}", CLOSED | WORKLOAD),
        (f"/docker/{ID}/within", None),
        (f"/docker/{ID}/docker/{ID}", None),
        (POD, WORKLOAD),  # Its containers are tenants of their own.
        (f"{POD}/{ID}", CLOSED | WORKLOAD),
        ("/user.slice/user-1000.slice", CLOSED | PLACE),
        ("/user.slice/user-1000.slice/user@1000.service", None),
        ("/system.slice/x.service", PLACE),  # A runtime's own may hold containers.
        ("/system.slice/x.service/within", None),
        ("/system.slice/slurmstepd.scope/job_7", CLOSED | WORKLOAD),
        ("/anything", TenantFlags(0)),
    ],
)
def test_the_outermost_cgroup_of_somebody_is_a_tenant(path, flags):
    assert standing(path) == flags


def test_what_only_looks_like_a_container_is_one_once_its_runtime_says_so():
    assert standing("/default/job") is None
    assert standing("/default/job", confirmed=True) == CLOSED | WORKLOAD


def test_a_directory_that_was_given_to_a_user_holds_nobody_else():
    assert standing("/shared", owner_uid=1000) == CLOSED
    assert standing("/shared/deep/down", owner_uid=1000) == CLOSED
    assert standing("/system.slice/x.service", owner_uid=1000) == CLOSED | PLACE
    # What its unit has below it is the unit's.
    assert standing("/system.slice/x.service/within", owner_uid=1000) is None
