"""Who had the CPU, once a second: what was added to the kernel's sums."""

import struct

import pytest

from cotenant.agent.recorder.samplers import cpu_contention
from cotenant.agent.recorder.samplers.cpu_contention import CpuContention

TENANT = 5


class _Ledger:
    def translate(self, ids, _v1_ids):
        return ids.astype("int64") + 1_000


def _key(own, peer):
    return struct.pack("<4Q", own, 0, peer, 0)


@pytest.fixture
def pairs(monkeypatch):
    """The kernel's map."""
    there = {}

    def items(*_):
        return b"".join(there), b"".join(struct.pack("<2Q", ns, TENANT) for ns in there.values())

    monkeypatch.setattr(cpu_contention.syscalls, "map_items", items)
    monkeypatch.setattr(cpu_contention.syscalls, "map_delete", lambda _, key: there.pop(key))
    return there


def test_a_row_is_what_was_added_since_the_last_sample(pairs):
    sampler = CpuContention(3, _Ledger(), lambda *_: False, lambda *_: None)
    pairs[_key(7, 8)] = 100
    pairs[_key(7, 0)] = 11
    first = sampler.sample(5).to_pylist()
    assert first == [
        {"timestamp_ns": 5, "cgroup_id": 1_007, "peer_cgroup_id": 1_008, "waited_ns": 100},
        {"timestamp_ns": 5, "cgroup_id": 1_007, "peer_cgroup_id": None, "waited_ns": 11},
    ]
    pairs[_key(7, 8)] = 103
    assert [row["waited_ns"] for row in sampler.sample(6).to_pylist()] == [3]
    assert sampler.sample(7) is None


def test_pairs_of_a_removed_cgroup_are_deleted_when_nothing_is_added_any_more(pairs):
    freed = []
    sampler = CpuContention(3, _Ledger(), lambda own, _: own == 8, lambda *one: freed.append(one))
    pairs[_key(7, 8)] = 100
    pairs[_key(7, 9)] = 100
    for second in range(40):
        sampler.sample(second)
    assert list(pairs) == [_key(7, 9)]
    assert freed == [("contention", TENANT)]
