"""``/metrics``: what the exact totals say, as Prometheus reads it.

Counters add up what was written since they were last asked, so that they never fall when old
rows expire. Series are bounded: a tenant is a label, a process or a cgroup never is, and tenants
beyond the first few hundred share one name. A name's control characters are spelled out, so that
it is safe to look at, and two names stay two.
"""

import json
import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector

from cotenant.printable import escaped
from cotenant.query.engine.session import Session
from cotenant.query.screens import counters
from cotenant.schema import TABLES
from cotenant.schema.holes import COVERAGE

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
MOST_TENANTS: Final = 300
EVERYONE_ELSE: Final = "(others)"
# Powers of two of a nanosecond: from a microsecond to a minute, each four times the last.
_BOUNDS: Final = range(10, 37, 2)

Labels = tuple[str, ...]  # Their values, in the order of the series' label names.
_TENANT: Final = ("tenant",)
_GPU: Final = ("tenant", "UUID", "gpu")  # As dcgm-exporter has them.
_DEVICE: Final = re.compile(r"/dev/nvidia(\d+)")
_LATELY_NS: Final = 60_000_000_000  # What levels of GPU time, work and share are of.
_FAMILY: Final = ("tenant", "family")
_FUNCTION: Final = ("tenant", "family", "function")
_REASON: Final = ("tenant", "family", "reason")

_GPU_USE: Final = (
    ("share", "Share of a GPU, in proportion to work"),
    ("work_ratio", "What a tenant's operations would have taken alone, of the time"),
    ("time_low_ratio", "GPU time that is proven, of the time"),
    ("time_high_ratio", "GPU time at most, of the time"),
)


class Metrics:
    """Counters over one store, for as long as the server runs."""

    def __init__(self, *, raw: bool = False) -> None:
        self._shown: Callable[[str], str] = str if raw else escaped
        self._lock = threading.Lock()
        self._tenants: dict[str, str] = {}
        self._read = counters.CounterCursor()
        self._calls: Counter[Labels] = Counter()
        self._ns: Counter[Labels] = Counter()
        self._bytes: Counter[Labels] = Counter()
        self._launches: Counter[Labels] = Counter()
        self._queued_ns: Counter[Labels] = Counter()
        self._events: dict[str, Counter[Labels]] = {name: Counter() for name in counters.FATES}
        self._blind_ns: Counter[Labels] = Counter()
        self._unseen: Counter[Labels] = Counter()
        self._buckets: dict[Labels, Counter[int]] = {}
        self._bucket_ns: Counter[Labels] = Counter()

    def scrape(self, session: Callable[[], Session]) -> bytes:
        """The text of one scrape."""
        with self._lock:
            opened = session()
            self._add(counters.since(opened, self._read))
            return _text([*self._counted(), *self._levels(opened)])

    def _tenant(self, name: str) -> str:
        if name not in self._tenants:
            full = len(self._tenants) >= MOST_TENANTS
            self._tenants[name] = EVERYONE_ELSE if full else self._shown(name)
        return self._tenants[name]

    def _add(self, news: counters.News) -> None:
        for row in news.totals:
            place = self._place(row)
            labels = (*place, self._shown(row["function"]))
            self._calls[labels] += row["count"]
            self._ns[labels] += row["sum_ns"]
            self._bytes[labels] += row["bytes"] or 0
            if row["launch"]:
                self._launches[place[:1]] += row["count"]
        for row in news.histograms:
            self._buckets.setdefault(self._place(row), Counter())[row["bucket"]] += row["count"]
        for row in news.durations:
            self._bucket_ns[self._place(row)] += row["sum_ns"]
        for row in news.fates:
            for name, series in self._events.items():
                series[self._place(row)] += row[name]

        for row in news.holes:
            labels = (*self._place(row), self._shown(row["reason"]))
            self._blind_ns[labels] += row["blind_ns"]
            self._unseen[labels] += row["unseen"]

        for row in news.queued:
            self._queued_ns[self._tenant(row["tenant"]), *self._gpu(row["gpu"])] += row["queued_ns"]

    def _gpu(self, name: str | None) -> Labels:
        """Its UUID, and its index where that is all that is known; empty where it is not known."""
        device = _DEVICE.fullmatch(name or "")
        return ("", device[1]) if device else (self._shown(name or ""), "")

    def _place(self, row: Mapping[str, str]) -> Labels:
        return self._tenant(row["tenant"]), self._shown(row["family"])

    def _counted(self) -> Iterator[Metric]:
        yield _counter(
            "cotenant_launches_total", "Kernels and graphs launched.", _TENANT, self._launches
        )
        yield _counter(
            "cotenant_gpu_queued_seconds_total",
            "Time with work of a tenant in flight on a GPU.",
            _GPU,
            {labels: ns / 1e9 for labels, ns in self._queued_ns.items()},
        )
        yield _counter(
            "cotenant_calls_total", "Calls of a traced function.", _FUNCTION, self._calls
        )
        yield _counter(
            "cotenant_call_seconds_total",
            "Time inside a traced function, on the host.",
            _FUNCTION,
            {labels: ns / 1e9 for labels, ns in self._ns.items()},
        )
        yield _counter(
            "cotenant_moved_bytes_total",
            "Bytes that a traced function moved.",
            _FUNCTION,
            {labels: number for labels, number in self._bytes.items() if number},
        )
        for name, series in self._events.items():
            yield _counter(f"cotenant_events_{name}_total", counters.FATES[name], _FAMILY, series)
        yield _counter(
            "cotenant_unseen_seconds_total",
            "How long something of a tenant went unseen.",
            _REASON,
            {labels: ns / 1e9 for labels, ns in self._blind_ns.items()},
        )
        yield _counter(
            "cotenant_unseen_events_total",
            "What is known to have gone unseen in that time.",
            _REASON,
            {labels: number for labels, number in self._unseen.items() if number},
        )
        yield self._histogram()

    def _histogram(self) -> Metric:
        family = HistogramMetricFamily(
            "cotenant_call_duration_seconds",
            "Duration of calls, of the driver's where layers nest.",
            labels=_FAMILY,
        )
        for place, buckets in sorted(self._buckets.items()):
            bounds = [
                (f"{2**power / 1e9:.9g}", sum(n for bucket, n in buckets.items() if bucket < power))
                for power in _BOUNDS
            ]
            whole = ("+Inf", sum(buckets.values()))
            family.add_metric(place, [*bounds, whole], self._bucket_ns[place] / 1e9)
        return family

    def _levels(self, session: Session) -> Iterator[Metric]:
        held: Counter[Labels] = Counter()
        for row in session.ask(counters.MEMORY).rows():
            if row["bytes"] is not None:
                held[self._tenant(row["tenant"]), *self._gpu(row["gpu"])] += row["bytes"]
        doc = "Device memory that a tenant holds."
        yield _gauge("cotenant_gpu_memory_bytes", doc, _GPU, held)
        yield from self._gpu_use(session)
        known = {name for name, shown in self._tenants.items() if shown != EVERYONE_ELSE}
        answer = session.ask(counters.INFO)
        info = {
            tuple(self._shown(str(value or "")) for value in row.values()): 1
            for row in answer.rows()
            if row["tenant"] in known
        }
        yield _gauge("cotenant_tenant_info", "Who a tenant is.", answer.table.column_names, info)
        newest = session.ask(counters.NEWEST).rows()[0]["newest_ns"]
        if newest is not None:
            yield _gauge(
                "cotenant_newest_total_timestamp_seconds",
                "When the totals were last written.",
                (),
                {(): newest / 1e9},
            )
        yield from self._kernel_cost(session)
        yield from self._lacking(session)
        yield from _disk(session.store)

    def _gpu_use(self, session: Session) -> Iterator[Metric]:
        """Of the last minute that was recorded: levels, since more may become known of a time."""
        newest = session.ask(counters.NEWEST).rows()[0]["newest_ns"]
        series: dict[str, dict[Labels, float]] = {name: {} for name, _ in _GPU_USE}
        idle: dict[Labels, float] = {}
        for row in [] if newest is None else counters.gpu_use(session, newest, _LATELY_NS):
            labels = (self._tenant(row["tenant"]), *self._gpu(row["gpu"]))
            for name, values in series.items():
                if row[name] is not None:
                    values[labels] = values.get(labels, 0.0) + row[name]
            if row["idle_share"] is not None:
                idle[labels[1:]] = row["idle_share"]
        for name, doc in _GPU_USE:
            yield _gauge(f"cotenant_gpu_{name}", f"{doc}, in the last minute.", _GPU, series[name])
        yield _gauge(
            "cotenant_gpu_idle_share",
            "Share of a GPU that no tenant's work took, in the last minute.",
            _GPU[1:],
            idle,
        )

    def _kernel_cost(self, session: Session) -> Iterator[Metric]:
        """Of the newest recording of each node: what falls is another recording's."""
        spent: dict[Labels, float] = {}
        left: dict[Labels, float] = {}
        for row in session.ask(counters.KERNEL_COST).rows():
            notes, node = json.loads(row["notes"] or "{}"), self._shown(row["node"])
            for family, cost in notes.get("kernel_cost", {}).get("families", {}).items():
                spent[node, self._shown(family)] = cost["spent_ns"] / 1e9
            for family, number in notes.get("left_to_totals", {}).get("over_budget", {}).items():
                left[node, self._shown(family)] = number
        yield _counter(
            "cotenant_kernel_program_seconds_total",
            "CPU time of programs on kernel events.",
            ("node", "family"),
            spent,
        )
        yield _counter(
            "cotenant_kernel_events_left_to_totals_total",
            "Kernel events without a row, for which the budget had no room.",
            ("node", "family"),
            left,
        )

    def _lacking(self, session: Session) -> Iterator[Metric]:
        """What is missing from all that is kept, also where nobody knows whose it was."""
        standing = session.standing(TABLES)
        blind: Counter[Labels] = Counter()
        for hole in standing.holes:
            if hole.reason not in COVERAGE:
                blind[self._shown(hole.reason),] += hole.blind_ns
        yield _gauge(
            "cotenant_incomplete_seconds",
            "How long something went unseen within what is kept, of whomever.",
            ("reason",),
            {labels: ns / 1e9 for labels, ns in blind.items()},
        )
        yield _gauge(
            "cotenant_unrecorded_info",
            "What the kernel does not let us see.",
            ("what",),
            {(self._shown(what),): 1 for what in standing.unrecorded},
        )
        yield _gauge(
            "cotenant_left_behind_info",
            "Tables of which a shipper left rows on their node.",
            ("table",),
            {(table,): 1 for table in standing.left_behind},
        )
        yield _gauge(
            "cotenant_missing_segments",
            "Files that a manifest names, and that are not there.",
            (),
            {(): standing.missing_segments},
        )


def _disk(store: Path) -> Iterator[Metric]:
    """How full the disk is that recorders write to."""
    room = os.statvfs(store)
    free = room.f_bavail * room.f_frsize
    size = (room.f_blocks - room.f_bfree) * room.f_frsize + free
    yield _gauge("cotenant_disk_free_bytes", "Left on the disk of the store.", (), {(): free})
    yield _gauge("cotenant_disk_bytes", "Size of the disk of the store.", (), {(): size})


class _Given(Collector):
    """Families that are there already; a registry wants somebody to collect them from."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """All of them."""
        return self._families


def _text(families: Iterable[Metric]) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Given(families))
    return generate_latest(registry)


def _counter(name: str, doc: str, labels: Iterable[str], series: Mapping[Labels, float]) -> Metric:
    return _filled(CounterMetricFamily(name, doc, labels=tuple(labels)), series)


def _gauge(name: str, doc: str, labels: Iterable[str], series: Mapping[Labels, float]) -> Metric:
    return _filled(GaugeMetricFamily(name, doc, labels=tuple(labels)), series)


def _filled(
    family: CounterMetricFamily | GaugeMetricFamily, series: Mapping[Labels, float]
) -> Metric:
    for values, number in sorted(series.items()):
        family.add_metric(values, number)
    return family
