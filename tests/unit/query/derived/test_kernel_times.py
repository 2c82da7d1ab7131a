"""Device time added up from the mixes of spans, against the time of each row."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from cotenant.query.engine.session import Session
from cotenant.query.questions.loader import find
from tests.unit.agent.recorder.ingest.test_spans import SECOND, SETTLED, calls, interleaved
from tests.virtual.rings import VirtualRecorder

_OF_ROWS = """
select tenant, node, gpu, kernel_name, gpu_ns_source,
       sum(weight)::bigint as launches, sum(gpu_ns * weight)::bigint as gpu_ns
from gpu_times
group by all
"""
_OF_MIXES = """
select tenant, node, gpu, kernel_name, gpu_ns_source, launches, gpu_ns
from kernel_times
"""
_WAITS_OF_ROWS = """
with waits as (
    select tenant, node, pid, proof_ns, proof_end_ns - proof_ns as waited_ns, proof_api as api,
           max(coalesce(size, 0)) as size, sum(weight) as operations
    from gpu_work
    where span is not null
    group by tenant, node, pid, proof_ns, proof_end_ns, proof_api
)
select tenant, api, count(*) as waits, sum(waited_ns)::bigint as waited_ns,
       sum(operations)::bigint as operations
from waits
group by all
"""
_COLUMNS = "tenant, api, sum(waits)::bigint, sum(waited_ns)::bigint, sum(operations)::bigint"


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


def _by_kind(rows):
    keys = ("tenant", "node", "gpu", "kernel_name", "gpu_ns_source")
    return {tuple(row[key] for key in keys): (row["launches"], row["gpu_ns"]) for row in rows}


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(calls)
def test_times_and_waits_from_mixes_are_those_of_the_rows(steps):
    place = Path(tempfile.mkdtemp())
    with Session(recorded(steps, place / "store")) as session:
        of_rows, of_mixes = (_by_kind(session.ask(q).rows()) for q in (_OF_ROWS, _OF_MIXES))
        question = find("sync_stalls").sql.replace("$limit", "1000")
        waits = session.ask(f"select {_COLUMNS} from ({question}) group by all").rows()
        expected = session.ask(_WAITS_OF_ROWS).rows()
    shutil.rmtree(place)
    assert {kind: launches for kind, (launches, _) in of_mixes.items()} == {
        kind: launches for kind, (launches, _) in of_rows.items()
    }
    for kind, (launches, gpu_ns) in of_rows.items():
        # Each row's time is rounded by itself.
        assert of_mixes[kind][1] == (gpu_ns and pytest.approx(gpu_ns, abs=launches))
    assert sorted(map(str, (tuple(row.values()) for row in waits))) == sorted(
        map(str, (tuple(row.values()) for row in expected))
    )
