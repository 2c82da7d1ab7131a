"""What a recording says about what it could not probe: short, once, and harmless to a terminal."""

from typing import Any

from cotenant.agent.protocol.reports import LibraryReport
from cotenant.agent.refusals import Notices

REASON = "would be single-stepped: starts with mov"


def library(path: str, **more: Any) -> LibraryReport:
    return LibraryReport(path, attached=1, **more)


def test_a_driver_whose_launches_are_not_seen_is_told_with_its_reasons() -> None:
    notices = Notices()
    refused = {"cuLaunchKernel": REASON, "cuMemFree_v2": REASON, "cuInit": "has no known end"}
    for _ in range(2):
        notices.library(library("/a/libcuda.so.1", blind=True, refused=refused))
    assert notices.lines == [
        "/a/libcuda.so.1: launches of this driver are not seen; record --probes any would see them",
        f"/a/libcuda.so.1: refused: cuLaunchKernel, cuMemFree_v2: {REASON}",
        "/a/libcuda.so.1: refused: cuInit: has no known end",
    ]


def test_a_refusal_that_hides_no_launch_is_not_told() -> None:
    notices = Notices()
    notices.library(library("/a/libnccl.so.2", refused={"ncclBcast": REASON}))
    assert notices.lines == []


def test_single_stepped_functions_are_told_with_what_they_cost() -> None:
    notices = Notices()
    notices.measured(1700, 11_200)
    notices.library(library("/a/libcuda.so.1", stepped=112))
    assert notices.lines == [
        "/a/libcuda.so.1: 112 functions are single-stepped: 11.2 us a call instead of 1.7 us"
    ]


def test_a_tenant_cannot_fill_the_screen_or_move_its_cursor() -> None:
    notices = Notices()
    for n in range(1009):
        notices.library(library(f"/tmp/\x1b[2J{n}", blind=True))
    assert len(notices.lines) == 64
    assert all(line.isprintable() for line in notices.lines)
