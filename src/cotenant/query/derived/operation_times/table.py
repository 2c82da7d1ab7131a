"""The table ``operation_times``: the catalogue, as far as spans have the operations."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from cotenant.query.derived.device_spans import device_spans
from cotenant.query.derived.operation_times.catalogue import Catalogue, catalogue
from cotenant.query.derived.operation_times.sources import NUMBER, SOURCES
from cotenant.query.derived.registry import Ask

SCHEMA: Final = pa.schema(
    [
        ("tenant", pa.string()),
        ("node", pa.string()),
        ("gpu", pa.string()),
        ("kernel_name", pa.string()),
        ("size", pa.int64()),
        ("time_ns", pa.float64()),
        ("low_ns", pa.float64()),
        ("high_ns", pa.float64()),
        ("source", pa.string()),
        ("source_tenant", pa.string()),  # Whose operations were timed, if another tenant's.
        ("samples", pa.int64()),  # Spans, or pairs of events, that it was learned from.
        ("launches", pa.int64()),
    ]
)


def compute(ask: Ask) -> Any:
    """Every kind of operation of every tenant on every GPU."""
    known = catalogue(ask, device_spans(ask))
    parts = [_of(known, number) for number in range(len(known.spans))]
    return pa.concat_tables(parts) if parts else SCHEMA.empty_table()


def _of(known: Catalogue, number: int) -> Any:
    spans, one, mixes = known.spans[number], known.known[number], known.mixes
    used, times = np.unique(spans.mix, return_counts=True)
    place = mixes.place(used)
    entry, mix = mixes.entries(place[place >= 0])
    counts = mixes.count[entry] * times[place >= 0][mix] * spans.part
    kinds = one.kinds
    launches = np.bincount(np.searchsorted(kinds, mixes.kind[entry]), counts, len(kinds))
    lenders = [known.spans[n].tenant if n >= 0 else None for n in one.lender.tolist()]
    of_source = {name: one.source == NUMBER[name] for name in SOURCES}
    source = np.select(list(of_source.values()), list(of_source), "none")
    count = len(kinds)
    columns = {
        "tenant": pa.array([spans.tenant] * count, pa.string()),
        "node": pa.array([spans.node] * count, pa.string()),
        "gpu": pa.array([spans.gpu] * count, pa.string()),
        "kernel_name": pa.array([mixes.names[k] for k in kinds.tolist()], pa.string()),
        "size": mixes.sizes[kinds],
        "time_ns": pa.array(one.times.time, from_pandas=True),
        "low_ns": pa.array(one.times.low, from_pandas=True),
        "high_ns": pa.array(one.times.high, from_pandas=True),
        "source": pa.array(source.tolist(), pa.string()),
        "source_tenant": pa.array(lenders, pa.string()),
        "samples": one.times.spans.astype(np.int64),
        "launches": np.rint(launches).astype(np.int64),
    }
    return pa.table(columns, SCHEMA)
