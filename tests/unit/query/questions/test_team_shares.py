"""What a team or a job used is the union of its tenants' work, not its sum."""

import pytest

from cotenant.query.engine.session import Session
from tests.virtual.rings import OFFSET_NS, VirtualRecorder, call

MS = 1_000_000
SECOND = 1_000 * MS
# Of three tenants of one team: when each has work, in ms of each of ten seconds.
WORK = {100: (0, 400), 101: (200, 600), 102: (500, 800)}


@pytest.fixture
def root(tmp_path):
    recorder = VirtualRecorder(tmp_path / "store")
    for cgroup in WORK:
        recorder.cgroup(cgroup, f"/tenant-{cgroup}")
        recorder.opened(cgroup, "GPU-1")
    recorder.began()
    for second in range(10):
        for cgroup, (start, end) in WORK.items():
            at, about = second * SECOND + start * MS, {"pid": cgroup, "cgroup": cgroup, "stream": 5}
            took = (end - start) * MS
            recorder.events.add(
                call("cuLaunchKernel", at, 9, threads=64, **about),
                call("cuStreamSynchronize", at + 1_000, took - 1_000, **about),
            )
    recorder.cycle(10 * SECOND)
    recorder.finish()
    return recorder.root


@pytest.mark.parametrize(
    ("window", "queued_ns"),
    [
        ({}, 8 * SECOND),
        ({"from_ns": OFFSET_NS + 300 * MS, "to_ns": OFFSET_NS + 2_300 * MS}, 1_600 * MS),
    ],
)
def test_a_team_has_work_queued_while_any_of_its_tenants_is(root, window, queued_ns):
    with Session(root, **window) as session:
        teams = session.ask("select name, queued_ns from queued_of_jobs where kind = 'team'").rows()
        jobs = session.ask(
            "select sum(queued_ns)::bigint as ns from queued_of_jobs where kind = 'job'"
        )
        each = session.ask("select sum(queued_ns)::bigint as ns from queued_time").rows()
    assert teams == [{"name": None, "queued_ns": queued_ns}]
    assert jobs.rows() == each
