"""What a span is made of is there once, whichever GPUs, contexts and processes had the same mix."""

import pytest

from cotenant.query.engine.session import Session
from tests.virtual.rings import VirtualRecorder, call

MS = 1_000_000
STEPS = 7
TWICE = """select mix, kernel_name, size from span_mixes group by all having count(*) > 1"""
# A link moves 25 bytes in the time of one thread, as in native/span_items.c.
SUMS = """
with sums as (
    select mix, sum(count * greatest(
        case when kernel_name like '[%' then size / 25 else size end, 1)) as extent
    from span_mixes group by mix
)
select s.total_extent, m.extent from spans s left join sums m using (mix)
where m.extent is null or abs(m.extent - s.total_extent) > 1e-6 * s.total_extent
"""
LAUNCHES = "select sum(launches)::bigint as n from kernel_times where kernel_name not like '[%'"
ROWS = "select count(*) as n from cuda_events where op = 'launch'"


def step(at, **about):
    """Two kernels and a copy, and the wait for them."""
    about |= {"stream": 5, "cgroup": 100}
    return [
        call("cuLaunchKernel", at, 9, threads=64, **about),
        call("cuLaunchKernel", at + 20, 9, threads=4096, **about),
        call("cuMemcpyDtoHAsync_v2", at + 40, 9, bytes=51_200, direction="DtoH", **about),
        call("cuStreamSynchronize", at + MS, MS, **about),
    ]


@pytest.mark.parametrize(
    ("processes", "contexts"), [((7,), (1,)), ((7, 8), (1,)), ((7,), (1, 2)), ((7, 8, 9), (1, 2))]
)
def test_each_mix_is_there_once_and_sums_to_its_spans(tmp_path, processes, contexts):
    recorder = VirtualRecorder(tmp_path / "store")
    recorder.cgroup(100, "/tenant-100")
    recorder.began()
    for number, pid in enumerate(processes):
        recorder.opened(pid, f"/dev/nvidia{number}")
    at = 10 * MS
    for _ in range(STEPS):
        for pid in processes:
            for context in contexts:
                recorder.events.add(*step(at, pid=pid, context=context))
                at += 3 * MS
    recorder.cycle(at + 3_000 * MS)
    recorder.finish()
    with Session(recorder.root) as session:
        assert session.ask(TWICE).rows() == []
        assert session.ask(SUMS).rows() == []
        stored = session.ask(TWICE.replace("span_mixes", "stored.span_mixes")).rows()
        assert session.ask(LAUNCHES).rows() == session.ask(ROWS).rows()
    assert stored == []
