"""How much of a GPU a tenant used: the same in `top`, in `ask`, on the page and in /metrics."""

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from cotenant.query.engine.session import Session
from cotenant.query.questions.loader import find
from cotenant.views.tui.sample import SampleSource
from tests.serving import SECOND_NS, serving
from tests.virtual.steady_work import WORKS, begun, work

TOLERANCE = 0.01


@pytest.fixture
def store(tmp_path):
    recorder = begun(tmp_path / "store")
    work(recorder, dict.fromkeys(WORKS, SECOND_NS), 23 * SECOND_NS)
    recorder.finish()
    return tmp_path / "store"


def scraped(served):
    """Seconds by tenant."""
    found = {}
    text = served.request("/metrics").body.decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == "cotenant_gpu_queued_seconds_total":
                tenant = sample.labels["tenant"]
                found[tenant] = found.get(tenant, 0) + sample.value
    return found


def test_what_a_tenant_used_is_the_same_wherever_it_is_shown(store):
    with Session(store) as session:
        asked = session.ask(find("gpu_use").render()).rows()
        used = {row["tenant"]: row for row in session.ask(find("who_uses_what").render()).rows()}
    source = SampleSource(store, seconds=3600)
    start, end, _ = source.window()
    top = {row["tenant"]: row for row in source.take().rows}
    with serving(store) as served:
        page = served.request(f"/api/queued?from={start}&to={end}").json["tenants"]
        tables = served.request(f"/api/tables?from={start}&to={end}").json["gpu_use"]
        counted = scraped(served)
    shown = {row[0]: dict(zip(tables["columns"], row, strict=True)) for row in tables["rows"]}
    tenants = {row["tenant"] for row in asked}
    assert len(tenants) == len({cgroup for cgroup, *_ in WORKS.values()})
    for tenant in tenants:
        gpus = [row for row in asked if row["tenant"] == tenant]
        seconds = sum(row["queued_ns"] for row in gpus) / SECOND_NS
        share = np.mean([row["share"] for row in gpus])
        assert counted[tenant] == pytest.approx(seconds, rel=TOLERANCE)
        assert used[tenant]["gpu_queued_ns"] == pytest.approx(seconds * SECOND_NS, rel=TOLERANCE)
        assert np.mean(page[tenant]) == pytest.approx(top[tenant]["queued_share"], abs=TOLERANCE)
        # The window begins with the first row, the recording a little before.
        of_window = share * gpus[0]["time_ns"] / (end - start)
        assert top[tenant]["gpu_share"] == pytest.approx(of_window, abs=TOLERANCE)
        assert shown[tenant]["gpu_share"] == pytest.approx(of_window, abs=TOLERANCE)
        assert used[tenant]["gpu_percent"] == pytest.approx(100 * share, abs=0.06)
