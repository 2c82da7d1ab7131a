"""What a test needs and does not find here: a reason to skip, or to fail where it was promised."""

import os
from typing import NoReturn

import pytest


def lacking(what: str, reason: str) -> NoReturn:
    """Skip with the reason; ``COTENANT_REQUIRE_<WHAT>=1`` promises that it is there."""
    promise = f"COTENANT_REQUIRE_{what.upper()}"
    if os.environ.get(promise):
        pytest.fail(reason)
    pytest.skip(f"{reason} ({promise}=1 makes this a failure)")
