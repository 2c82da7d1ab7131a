"""Whose stack a program ran on, by where its frame lay."""

import numpy as np
import pytest

from cotenant.probes import stacks
from cotenant.schema.layouts import STACK_PLACE

TASK = 0xFFFF_C900_0120_0000


def place_of(frame: int) -> bytes:
    return np.array([(frame, TASK)], STACK_PLACE).tobytes()


@pytest.mark.parametrize("depth", [0, 16_000, stacks._STACK_BYTES - 1])
def test_a_frame_within_the_tasks_stack_is_safe(depth: int) -> None:
    assert stacks._judge(place_of(TASK + depth)) is None


@pytest.mark.parametrize("frame", [TASK - 8, TASK + stacks._STACK_BYTES, 0xFFFF_E8FF_FFC0_1000])
def test_a_frame_anywhere_else_is_shared_with_others(frame: int) -> None:
    assert "share a stack" in (stacks._judge(place_of(frame)) or "")


@pytest.mark.parametrize("place", [None, bytes(STACK_PLACE.itemsize)])
def test_a_program_that_did_not_run_tells_nothing(place: bytes | None) -> None:
    assert stacks._judge(place) == "attached, but the program did not run"
