"""Operations added up from the mixes of spans, against the rows."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings

from cotenant.query.engine.session import Session
from tests.unit.agent.recorder.ingest.test_spans import SECOND, SETTLED, calls, interleaved
from tests.virtual.rings import VirtualRecorder

_OF_ROWS = """
select tenant, node, gpu, kernel_name, sum(weight)::bigint as launches
from gpu_work
group by all
"""
_OF_MIXES = """
select tenant, node, gpu, kernel_name, sum(launches)::bigint as launches
from kernel_times
group by all
"""


def recorded(steps, root):
    """A store of these calls, with their spans."""
    recorder = VirtualRecorder(root)
    for kernel_id in (100, 101):
        recorder.cgroup(kernel_id, f"/tenant-{kernel_id}")
    recorder.began(SECOND)
    records = interleaved(steps)
    for _, record in records:
        recorder.events.add(record)
    ended, _ = records[-1]
    recorder.cycle(ended)
    recorder.cycle(ended + SETTLED)
    recorder.finish()
    return root


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(calls)
def test_mixes_have_as_many_operations_as_rows(steps):
    place = Path(tempfile.mkdtemp())
    with Session(recorded(steps, place / "store")) as session:
        of_rows, of_mixes = (
            {tuple(row.values()) for row in session.ask(query).rows()}
            for query in (_OF_ROWS, _OF_MIXES)
        )
    shutil.rmtree(place)
    assert of_mixes == of_rows
