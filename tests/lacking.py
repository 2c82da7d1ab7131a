"""What a test needs and does not find here: a reason to skip, or to fail where it was promised."""

import os
import re
from typing import Final, NoReturn

import pytest

# What no package can bring. With COTENANT_SKIPS=listed, as in `make test`, any other skip fails.
LISTED: Final = {
    r"only root ": "the user who runs the tests is not root",
    r"no (session|multi) here: ": "the kernel has no link of this kind",
    r"no version 1 \w+ controller is mounted here": "the host mounts cgroup version 2 alone",
    r"this kernel has no private stacks": "Linux before 6.13",
    r"no /dev/fuse here": "the kernel has no FUSE",
    r"only one CPU here": "the storm needs a CPU of its own",
    r"this machine has a driver": "calls that must fail for want of a driver would succeed",
    r"another recorder probes this file": "a recorder that no test started is running",
}


def lacking(what: str, reason: str) -> NoReturn:
    """Skip with the reason; ``COTENANT_REQUIRE_<WHAT>=1`` promises that it is there."""
    promise = f"COTENANT_REQUIRE_{what.upper()}"
    if os.environ.get(promise):
        pytest.fail(reason)
    pytest.skip(f"{reason} ({promise}=1 makes this a failure)")


def unlisted(report: pytest.TestReport) -> str | None:
    """The reason for a skip that is not in the list."""
    if not report.skipped or hasattr(report, "wasxfail"):
        return None
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = reason.removeprefix("Skipped: ")
    return None if any(re.match(each, reason) for each in LISTED) else reason
