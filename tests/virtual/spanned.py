"""Spans of rows that a test writes, made by the recorder's own maker."""

import numpy as np
import pyarrow as pa

from cotenant.agent.recorder.ingest.batch import KNOWN
from cotenant.agent.recorder.ingest.spans import SpanMaker
from cotenant.agent.recorder.samplers.lost_windows import LostWindows
from cotenant.agent.recorder.samplers.spans import SpanRows
from cotenant.probes.tables import FUNCTIONS
from cotenant.schema import TABLES
from cotenant.schema.events import CUDA_RECORD, ENUMS
from cotenant.store.segment import conform
from cotenant.store.writer import StoreWriter

_FIELDS = {field.name: field for field in CUDA_RECORD.fields if field.type != "S0"}
_APIS = {function.symbol: function.id for function in FUNCTIONS}
_NUMBERS = {
    "op": {text: number for number, text in ENUMS["cuda_op"].items()},
    "direction": {text: number for number, text in ENUMS["cuda_direction"].items()},
    "nccl_op": {text: number for number, text in ENUMS["nccl_op"].items()},
    "api": _APIS,
}

_SPUN, SPUN_NS = 11, 20_000  # CUDA_KNOWN_SPUN


class _RowBatch:
    """Rows of a table as the batch of ring records that they would have come in."""

    def __init__(self, rows):
        self._rows = rows
        self.rows = self.signatures = rows.num_rows
        self.codes = np.arange(self.rows, dtype=np.int32)

    def field(self, name):
        if name == KNOWN:
            bits = np.zeros(self.rows, np.uint64)
            for field in _FIELDS.values():
                if field.known is not None and field.column in self._rows.column_names:
                    valid = self._rows.column(field.column).is_valid().to_numpy()
                    bits |= valid.astype(np.uint64) << np.uint64(field.known)
            return bits | np.where(self._spun(), np.uint64(1 << _SPUN), np.uint64(0))
        if name == "cgroup_id":
            return self._rows.column(name).to_numpy()
        if name == "seen_ns":
            return (self._began() + self._took()).astype(np.uint64)
        field = _FIELDS["api" if name == "function" else name]
        if field.column is None or field.column not in self._rows.column_names:
            return np.zeros(self.rows, field.type)
        values = self._rows.column(field.column)
        if field.column in _NUMBERS:
            numbers = _NUMBERS[field.column]
            last = max(numbers.values()) + 1
            found = [numbers.get(text, last) for text in values.to_pylist()]
            return np.array(found).astype(field.type)
        return values.fill_null(0).to_numpy().astype(field.type)

    plain = field

    def _began(self):
        return self._rows.column("timestamp_ns").to_numpy()

    def _took(self):
        return self._rows.column("duration_ns").fill_null(0).to_numpy()

    def _spun(self):
        """Virtual threads wait on a CPU, so that they see the device done at once."""
        waits = np.array([op == "sync" for op in self._rows.column("op").to_pylist()])
        return waits & (self._took() >= SPUN_NS)

    def unknown(self, field):
        return None if field.known is None else ~(self.field(KNOWN) >> field.known & 1 == 1)

    def key(self, *names):
        columns = [self.field(name).astype(np.int64) for name in names]
        distinct, codes = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
        return codes.reshape(-1), distinct


class SpannedWriter(StoreWriter):
    """A writer that stores the spans of the launches and waits that it is given."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self._calls, self._began, self.spans_given = [], set(), False

    def append(self, table_name, rows):
        """Add rows; those of CUDA calls become spans when sealed, unless spans are given."""
        super().append(table_name, rows)
        if table_name == "cuda_events":
            self._calls.append(conform(TABLES[table_name], rows))
        self.spans_given |= table_name == "spans"

    def replace(self, table_name, rows, **more):
        """Add a snapshot; recordings say which calls cannot prove each other's work."""
        super().replace(table_name, rows, **more)
        if table_name == "sessions":
            self._began |= {row["started_ns"] for row in rows.to_pylist()}

    def seal(self, now_ns):
        """Close every span of the rows so far, and seal both."""
        calls, self._calls = self._calls, []
        for table, made in () if self.spans_given else spans_of(calls, self._began):
            super().append(table, made)
        return super().seal(now_ns)


def spans_of(tables, began=()):
    """Rows of ``spans`` and ``span_mixes``; recordings ``began`` at these times."""
    rows = pa.concat_tables(tables) if tables else None
    if not rows:
        return
    ended = pa.compute.add(rows["timestamp_ns"], rows["duration_ns"].fill_null(0))
    rows = rows.append_column("ended", ended).sort_by("ended").drop_columns(["ended"])
    for name in ("kernel_name", "gpu"):
        place = rows.column_names.index(name)
        column = rows.column(name).cast(pa.string()).combine_chunks().dictionary_encode()
        rows = rows.set_column(place, name, column)
    maker = SpanMaker(lambda: 0)
    for moment in sorted(began):
        maker.begin(moment)
    maker.add(_RowBatch(rows), rows, lambda cgroup, _: str(cgroup), lambda times: times)
    made = SpanRows(maker, LostWindows())
    made.finish()
    took_ns = rows["duration_ns"].fill_null(0)
    last_ns = max(pa.compute.add(rows["timestamp_ns"], took_ns).to_pylist())
    for sampler in (made, made.mixes):
        found = sampler.sample(last_ns)
        if found is not None:
            yield sampler.table, found
