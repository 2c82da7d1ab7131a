"""The table ``gpu_use``: five quantities that are not each other, of each tenant on each GPU.

    queued      work was in flight
    GPU time    the device was at an operation of the tenant: bounds that are proofs, an estimate
    work        what its operations would have taken alone
    share       of the GPU, in proportion to work; with what is idle it sums to the time recorded
    utilisation what the vendor's counters say: not recorded

See docs/how/gpu-use.md.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from cotenant.query.derived.device_spans import DeviceSpans, device_spans
from cotenant.query.derived.gpu_use.estimates import Estimates, estimates, main_source
from cotenant.query.derived.gpu_use.shares import Slots
from cotenant.query.derived.gpu_use.statement import stated
from cotenant.query.derived.gpu_use.union import Timeline
from cotenant.query.derived.operation_times.catalogue import catalogue
from cotenant.query.derived.queued_places import certain_places_of, places_of
from cotenant.query.derived.registry import Ask

SCHEMA: Final = pa.schema(
    [
        ("tenant", pa.string()),
        ("node", pa.string()),
        ("gpu", pa.string()),
        ("queued_ns", pa.int64()),
        ("gpu_time_low_ns", pa.int64()),  # Proven: no less,
        ("gpu_time_high_ns", pa.int64()),  # and no more.
        ("gpu_time_ns", pa.int64()),
        ("gpu_time_ci_low_ns", pa.int64()),
        ("gpu_time_ci_high_ns", pa.int64()),
        ("work_ns", pa.int64()),
        ("work_ci_low_ns", pa.int64()),
        ("work_ci_high_ns", pa.int64()),
        ("share", pa.float64()),  # Of the time that was recorded.
        ("idle_share", pa.float64()),  # Of its GPU.
        ("source", pa.string()),
        ("source_tenant", pa.string()),
        ("statement", pa.string()),
        ("time_ns", pa.int64()),
    ]
)
_KNOWN: Final = 0.7  # Of the spans, whose operations the catalogue must know.

_ESTIMATED: Final = (
    *("gpu_time_ns", "gpu_time_ci_low_ns", "gpu_time_ci_high_ns"),
    *("work_ns", "work_ci_low_ns", "work_ci_high_ns"),
)
_BASES: Final = """
select l.node, l.time_ns, b.from_ns, b.to_ns
from looked_at l
cross join whole.bounds b
"""
_OLDER: Final = "select tenant, node, gpu, queued_ns from queued_before_spans"


def compute(ask: Ask) -> Any:
    """Every tenant on every GPU that it had work on."""
    known = catalogue(ask, device_spans(ask))
    bases = {row["node"]: row for row in ask(_BASES).to_pylist()}
    places: dict[tuple[str, str | None], list[int]] = {}
    for number, spans in enumerate(known.spans):
        if len(spans.start):
            places.setdefault(spans.place, []).append(number)
    rows: dict[tuple[str, str, str | None], dict[str, Any]] = {}
    for place, numbers in places.items():
        tenants = [known.spans[n] for n in numbers]
        each = [estimates(known, n) for n in numbers]
        lenders = [known.spans[e.lender].tenant if e.lender >= 0 else None for e in each]
        for row in _of_gpu(tenants, each, lenders, bases.get(place[0])):
            rows[row["tenant"], row["node"], row["gpu"]] = row
    if any(spans.part > 1 for spans in known.spans):
        _of_all_spans(ask, rows, bases)
    for older in ask(_OLDER).to_pylist():
        _add_older(rows, older, bases)
    for row in rows.values():
        row["statement"] = stated(row)
    return pa.Table.from_pylist(list(rows.values()), SCHEMA)


def _of_gpu(
    tenants: list[DeviceSpans],
    each: list[Estimates],
    lenders: list[str | None],
    base: dict[str, Any] | None,
) -> list[dict[str, Any]]:
    """Its tenants, and what they leave idle."""
    origin = min(int(spans.start[0]) for spans in tenants)
    last = max(int(spans.end.max()) for spans in tenants)
    begin, end = 0.0, float(last - origin)
    if base is not None:
        begin = max(float(base["from_ns"] - origin), begin)
        end = min(float(base["to_ns"] - origin), end)
    lines = [Timeline.of(spans, origin, begin, end) for spans in tenants]
    rows = [
        _row(spans, line, found, lender)
        for spans, line, found, lender in zip(tenants, lines, each, lenders, strict=True)
    ]
    if tenants[0].gpu is None or base is None or not base["time_ns"]:
        return [row | {"time_ns": base and base["time_ns"]} for row in rows]
    shares = _shares(lines, each, Slots(begin, end), base["time_ns"])
    # Where the work of one tenant is not known, nor is what is idle.
    known = all("work_ns" in row for row in rows)
    idle = max(1 - sum(shares), 0.0) if known else None
    return [
        row
        | {"share": share if "work_ns" in row else None, "idle_share": idle}
        | {"time_ns": base["time_ns"]}
        for row, share in zip(rows, shares, strict=True)
    ]


def _shares(
    lines: list[Timeline], each: list[Estimates], slots: Slots, time_ns: int
) -> list[float]:
    work = [
        slots.work(line.start, line.end, e.work.value) for line, e in zip(lines, each, strict=True)
    ]
    lengths = slots.lengths()
    total = np.maximum(sum(work, np.zeros(slots.count)), lengths)
    found = [float((own / total * lengths).sum()) / time_ns for own in work]
    # The first recorded moment is known to a sample, and spans may reach a little beyond.
    return [share / max(sum(found), 1.0) for share in found]


def _within(line: Timeline, values: Any) -> int:
    """The part of values, even over their spans, that is in the window."""
    begin, end = line.all.begin, line.all.end
    inside = np.clip(line.end, begin, end) - np.clip(line.start, begin, end)
    return round(float((values * inside / np.maximum(line.end - line.start, 1.0)).sum()))


def _row(
    spans: DeviceSpans, line: Timeline, found: Estimates, lender: str | None
) -> dict[str, Any]:
    low, high = round(line.certain.total), round(line.all.total)
    row = {
        "tenant": spans.tenant, "node": spans.node, "gpu": spans.gpu, "queued_ns": high,
        "gpu_time_low_ns": low, "gpu_time_high_ns": high, "source": main_source(found),
    }  # fmt: skip
    if found.known.mean() < _KNOWN:
        return row | {"source": "none"}
    taken = [
        min(max(round(line.at_work(values, found.certain)), low), high)
        for values in (found.taken.value, found.taken.low, found.taken.high)
    ]
    row |= dict(
        zip(("gpu_time_ns", "gpu_time_ci_low_ns", "gpu_time_ci_high_ns"), taken, strict=True)
    )
    work = [_within(line, v) for v in (found.work.value, found.work.low, found.work.high)]
    row |= dict(zip(("work_ns", "work_ci_low_ns", "work_ci_high_ns"), work, strict=True))
    if row["source"] == "borrowed":
        row["source_tenant"] = lender
    return row


def _of_all_spans(ask: Ask, rows: dict[Any, dict[str, Any]], bases: dict[str, Any]) -> None:
    """Bounds of all spans, where estimates are of a part: these grow with the upper bound."""
    kept = "by_spans(s.node, s.within_from_ns)"
    bounds = {
        "gpu_time_high_ns": places_of(ask, kept, within=True),
        "gpu_time_low_ns": certain_places_of(ask, kept),
    }
    for name, places in bounds.items():
        for place in places:
            row = _row_of(rows, (place.tenant, place.node, place.gpu), bases)
            length = int((place.ends - place.starts).sum())
            if name == "gpu_time_high_ns":
                _grow(row, length / max(row[name], 1))
                row["queued_ns"] = length
            row[name] = length
    for row in rows.values():
        for name in ("gpu_time_ns", "gpu_time_ci_low_ns", "gpu_time_ci_high_ns"):
            if row.get(name) is not None:
                row[name] = min(max(row[name], row["gpu_time_low_ns"]), row["gpu_time_high_ns"])
    _fill_up(rows)


def _row_of(
    rows: dict[Any, dict[str, Any]], key: tuple[str, str, str | None], bases: dict[str, Any]
) -> dict[str, Any]:
    """The row of a tenant on a GPU; one of which nothing is known yet, if there is none."""
    tenant, node, gpu = key
    base = bases.get(node)
    empty = {
        "tenant": tenant, "node": node, "gpu": gpu, "queued_ns": 0, "gpu_time_low_ns": 0,
        "gpu_time_high_ns": 0, "source": "none", "time_ns": base and base["time_ns"],
    }  # fmt: skip
    return rows.setdefault(key, empty)


def _grow(row: dict[str, Any], factor: float) -> None:
    for name in _ESTIMATED:
        if row.get(name) is not None:
            row[name] = round(row[name] * factor)
    if row.get("share") is not None:
        row["share"] *= factor


def _fill_up(rows: dict[Any, dict[str, Any]]) -> None:
    """What the shares of each GPU leave idle."""
    gpus: dict[tuple[str, str | None], list[dict[str, Any]]] = {}
    for row in rows.values():
        if row.get("idle_share") is not None:
            gpus.setdefault((row["node"], row["gpu"]), []).append(row)
    for tenants in gpus.values():
        taken = sum(row["share"] for row in tenants)
        for row in tenants:
            row["share"] /= max(taken, 1.0)
            row["idle_share"] = max(1.0 - taken, 0.0)


def _add_older(
    rows: dict[Any, dict[str, Any]], older: dict[str, Any], bases: dict[str, Any]
) -> None:
    """Of a time of which no spans are kept, no more is known than that work was in flight."""
    row = _row_of(rows, (older["tenant"], older["node"], older["gpu"]), bases)
    row["queued_ns"] += older["queued_ns"]
    row["gpu_time_high_ns"] += older["queued_ns"]
    if row.get("gpu_time_ci_high_ns") is not None:
        row["gpu_time_ci_high_ns"] += older["queued_ns"]
        row["work_ci_high_ns"] += older["queued_ns"]
