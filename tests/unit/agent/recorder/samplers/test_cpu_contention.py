"""Who had the CPU, once a second: what was added to the kernel's sums."""

import struct

from cotenant.agent.recorder.samplers.cpu_contention import CpuContention

TENANT = 5


class _Ledger:
    def translate(self, ids, _v1_ids):
        return ids.astype("int64") + 1_000


def _key(own, peer):
    return struct.pack("<4Q", own, 0, peer, 0)


class _Pairs:
    """The kernel's map."""

    def __init__(self):
        self.there = {}

    def items(self):
        values = [struct.pack("<2Q", ns, TENANT) for ns in self.there.values()]
        return b"".join(self.there), b"".join(values)

    def delete(self, key):
        del self.there[key]


_TIMES = {"timestamp_ns": 5, "since_ns": None}


def test_a_row_is_what_was_added_since_the_last_sample():
    kept = _Pairs()
    pairs = kept.there
    sampler = CpuContention(kept, _Ledger(), lambda *_: False, lambda *_: None)
    pairs[_key(7, 8)] = 100
    pairs[_key(7, 0)] = 11
    first = sampler.sample(5).to_pylist()
    assert first == [
        {"cgroup_id": 1_007, "peer_cgroup_id": 1_008, "waited_ns": 100} | _TIMES,
        {"cgroup_id": 1_007, "peer_cgroup_id": None, "waited_ns": 11} | _TIMES,
    ]
    pairs[_key(7, 8)] = 103
    (row,) = sampler.sample(6).to_pylist()
    assert (row["waited_ns"], row["since_ns"]) == (3, 5)
    assert sampler.sample(7) is None


def test_pairs_of_a_removed_cgroup_are_deleted_when_nothing_is_added_any_more():
    kept, freed = _Pairs(), []
    pairs = kept.there
    sampler = CpuContention(
        kept, _Ledger(), lambda own, _: own == 8, lambda *one: freed.append(one)
    )
    pairs[_key(7, 8)] = 100
    pairs[_key(7, 9)] = 100
    for second in range(40):
        sampler.sample(second)
    assert list(pairs) == [_key(7, 9)]
    assert freed == [("contention", TENANT)]
