"""Whoever maps another file with the inode number of one without probes misses nothing."""

import struct
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

from cotenant.agent.helper.discovery.mmap_events import MmapEvent
from cotenant.agent.helper.discovery.unprobed_mappings import UnprobedMappings
from cotenant.agent.helper.libraries.unprobed import UnprobedFunctions
from cotenant.agent.protocol.reports import Report, Unprobed
from cotenant.probes.inodes import Inode
from cotenant.schema.layouts import MAPPING

DISK, OVERLAY, TMPFS = (8, 1), (0, 40), (0, 57)
NUMBER = 1234567
REFUSED = Inode(57, NUMBER, 0)
ON_DISK = Inode(8 << 20 | 1, NUMBER, 3)


def event(device: tuple[int, int], generation: int, path: str) -> MmapEvent:
    key = struct.pack("IIQQq", *device, NUMBER, generation, 0)
    return MmapEvent(7, 4096, 8192, 5, path, writable=False, key=key)


@pytest.mark.parametrize(
    ("device", "generation", "path", "beneath", "blind"),
    [
        (TMPFS, 0, "/t/libcuda.so.1", None, True),
        (TMPFS, 1, "/t/libcuda.so.1", ON_DISK, False),
        (DISK, 3, "/usr/lib/libc.so.6", None, False),
        (DISK, 3, "/usr/lib/libcuda.so.1", None, False),
        (OVERLAY, 0, "/usr/lib/libc.so.6", ON_DISK, False),
        (OVERLAY, 0, "/usr/lib/libcuda.so.1", ON_DISK, False),
        (OVERLAY, 0, "/usr/lib/static", REFUSED, True),
        # Its process is gone by then.
        (OVERLAY, 0, "/usr/lib/libc.so.6", None, False),
        (OVERLAY, 0, "/usr/lib/libcuda.so.1", None, True),
    ],
)
def test_who_maps_a_file_is_blind_if_it_is_the_one_without_probes(
    device: tuple[int, int], generation: int, path: str, beneath: Inode | None, blind: bool
) -> None:
    told: list[Report] = []
    unprobed = UnprobedFunctions(lambda _: {}, told.append)
    unprobed.consider(REFUSED, {"*": "odd"}, ("cuda",), "/storm")
    now = np.zeros(1 if beneath else 0, MAPPING)
    if beneath:
        now["start"], now["end"] = 4096, 12288
        now["device"], now["inode"] = beneath.device, beneath.number
        now["generation"] = beneath.generation

    def at_once(_: str, work: Callable[[], None]) -> None:
        work()

    mappings = UnprobedMappings(
        SimpleNamespace(unprobed=unprobed),  # type: ignore[arg-type]
        SimpleNamespace(of=lambda _: now),  # type: ignore[arg-type]
        at_once,
    )
    mappings.mapped("/calm", event(device, generation, path))
    found = [one.tenant for report in told if isinstance(report, Unprobed) for one in report.blind]
    assert found == ["/calm"] * blind
