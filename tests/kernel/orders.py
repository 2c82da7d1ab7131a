"""In which order each surface has the tenants that use a GPU."""

import json
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from cotenant.query.engine.session import Session
from cotenant.query.questions.loader import find
from cotenant.query.screens.activity import tenants_sql
from tests.kernel.conftest import command
from tests.serving import Served, serving

Rows = list[dict[str, Any]]


def _page(served: Served, start: int, end: int) -> Rows:
    """As its script orders them."""
    used = served.request(f"/api/tables?from={start}&to={end}").json["gpu_use"]
    rows = [dict(zip(used["columns"], row, strict=True)) for row in used["rows"]]

    def known(row: dict[str, Any]) -> int:
        work = row["work_ns"] if row["work_ns"] is not None else row["gpu_time_low_ns"]
        return int(work)

    return sorted(rows, key=known, reverse=True)


def _metrics(served: Served) -> Rows:
    families = text_string_to_metric_families(served.request("/metrics").body.decode())
    (work,) = (f for f in families if f.name == "cotenant_gpu_work_ratio")
    return [s.labels for s in sorted(work.samples, key=lambda s: s.value, reverse=True)]


def orders(store: Path) -> dict[str, list[str]]:
    """Each tenant once, where it comes first."""
    with Session(store) as session:
        found = {n: session.ask(find(n).render()).rows() for n in ("gpu_use", "who_uses_what")}
        for name in ("device_time", "top_kernels"):
            found[name] = session.ask(find(name).render(["limit=1000"])).rows()
        (ends,) = session.ask(
            "select min(timestamp_ns) as a, max(timestamp_ns) + 1 as b from cuda_events"
        ).rows()
        found["top"] = session.ask(tenants_sql(ends["a"], ends["b"], gpu_use=True)).rows()
    with serving(store) as served:
        found["page"] = _page(served, ends["a"], ends["b"])
        found["metrics"] = _metrics(served)
    code, said, complaints = command("explain", "--store", store, "--json")
    assert code == 0, complaints
    found["explain"] = [{"tenant": f["victim"]} for f in json.loads(said)["findings"]]
    return {name: list(dict.fromkeys(r["tenant"] for r in rows)) for name, rows in found.items()}
