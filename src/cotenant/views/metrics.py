"""``/metrics``: what the exact totals say, as Prometheus reads it.

Counters add up what was written since they were last asked, so that they never fall when old
rows expire. Series are bounded: a tenant is a label, a process or a cgroup never is, and tenants
beyond the first few hundred share one name.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from cotenant.query import counters
from cotenant.query.session import Session

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
MOST_TENANTS: Final = 300
EVERYONE_ELSE: Final = "(others)"
# Powers of two of a nanosecond: from a microsecond to a minute, each four times the last.
_BOUNDS: Final = range(10, 37, 2)

Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Counters over one store, for as long as the server runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tenants: dict[str, str] = {}
        self._read = counters.Cursor()
        self._calls: Counter[Labels] = Counter()
        self._ns: Counter[Labels] = Counter()
        self._bytes: Counter[Labels] = Counter()
        self._launches: Counter[Labels] = Counter()
        self._events: dict[str, Counter[Labels]] = {name: Counter() for name in counters.FATES}
        self._buckets: dict[Labels, Counter[int]] = {}
        self._bucket_ns: Counter[Labels] = Counter()

    def scrape(self, session: Callable[[], Session]) -> str:
        """The text of one scrape."""
        with self._lock:
            opened = session()
            self._add(counters.since(opened, self._read))
            return "\n".join([*self._counted(), *self._levels(opened)]) + "\n"

    def _tenant(self, name: str) -> str:
        if name not in self._tenants:
            full = len(self._tenants) >= MOST_TENANTS
            self._tenants[name] = EVERYONE_ELSE if full else name
        return self._tenants[name]

    def _add(self, news: counters.News) -> None:
        for row in news.totals:
            tenant = ("tenant", self._tenant(row["tenant"]))
            family = ("family", row["family"])
            labels: Labels = (tenant, family, ("function", row["function"]))
            self._calls[labels] += row["count"]
            self._ns[labels] += row["sum_ns"]
            self._bytes[labels] += row["bytes"] or 0
            if row["launch"]:
                self._launches[(tenant,)] += row["count"]
        for row in news.histograms:
            place: Labels = (("tenant", self._tenant(row["tenant"])), ("family", row["family"]))
            self._buckets.setdefault(place, Counter())[row["bucket"]] += row["count"]
        for row in news.durations:
            place = (("tenant", self._tenant(row["tenant"])), ("family", row["family"]))
            self._bucket_ns[place] += row["sum_ns"]
        for row in news.fates:
            place = (("tenant", self._tenant(row["tenant"])), ("family", row["family"]))
            for name, series in self._events.items():
                series[place] += row[name]

    def _counted(self) -> Iterator[str]:
        yield from _series(
            "cotenant_launches_total", "counter", "Kernels and graphs launched.", self._launches
        )
        yield from _series(
            "cotenant_calls_total", "counter", "Calls of a traced function.", self._calls
        )
        yield from _series(
            "cotenant_call_seconds_total",
            "counter",
            "Time inside a traced function, on the host.",
            {labels: ns / 1e9 for labels, ns in self._ns.items()},
        )
        yield from _series(
            "cotenant_moved_bytes_total",
            "counter",
            "Bytes that a traced function moved.",
            {labels: number for labels, number in self._bytes.items() if number},
        )
        for name, series in self._events.items():
            yield from _series(
                f"cotenant_events_{name}_total", "counter", counters.FATES[name], series
            )
        yield from self._histogram()

    def _histogram(self) -> Iterator[str]:
        name = "cotenant_call_duration_seconds"
        yield from _head(name, "histogram", "Duration of calls, of the driver's where layers nest.")
        for place, buckets in sorted(self._buckets.items()):
            for power in _BOUNDS:
                below = sum(count for bucket, count in buckets.items() if bucket < power)
                bound = (*place, ("le", f"{2**power / 1e9:.9g}"))
                yield _line(f"{name}_bucket", bound, below)
            total = sum(buckets.values())
            yield _line(f"{name}_bucket", (*place, ("le", "+Inf")), total)
            yield _line(f"{name}_sum", place, self._bucket_ns[place] / 1e9)
            yield _line(f"{name}_count", place, total)

    def _levels(self, session: Session) -> Iterator[str]:
        held: Counter[Labels] = Counter()
        for row in session.ask(counters.MEMORY).rows():
            labels = (("tenant", self._tenant(row["tenant"])), ("gpu", row["gpu"] or "unknown"))
            if row["bytes"] is not None:
                held[labels] += row["bytes"]
        yield from _series(
            "cotenant_gpu_memory_bytes", "gauge", "Device memory that a tenant holds.", held
        )
        known = {name for name, shown in self._tenants.items() if shown == name}
        info: dict[Labels, int] = {}
        for row in session.ask(counters.INFO).rows():
            if row["tenant"] in known:
                info[tuple((key, str(value or "")) for key, value in row.items())] = 1
        yield from _series("cotenant_tenant_info", "gauge", "Who a tenant is.", info)
        newest = session.ask(counters.NEWEST).rows()[0]["newest_ns"]
        if newest is not None:
            yield from _series(
                "cotenant_newest_total_timestamp_seconds",
                "gauge",
                "When the totals were last written.",
                {(): newest / 1e9},
            )


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _line(name: str, labels: Iterable[tuple[str, str]], number: float) -> str:
    inside = ",".join(f'{key}="{_escaped(value)}"' for key, value in labels)
    shown = f"{number:.9f}".rstrip("0").rstrip(".") if isinstance(number, float) else str(number)
    return f"{name}{{{inside}}} {shown}" if inside else f"{name} {shown}"


def _head(name: str, kind: str, doc: str) -> Iterator[str]:
    yield f"# HELP {name} {doc}"
    yield f"# TYPE {name} {kind}"


def _series(name: str, kind: str, doc: str, of: Any) -> Iterator[str]:
    yield from _head(name, kind, doc)
    for labels, number in sorted(of.items()):
        yield _line(name, labels, number)
