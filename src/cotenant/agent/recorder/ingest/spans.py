"""Spans, made of the rows of ``cuda_events`` as they come; ``native/spans.h`` keeps the state.

What a row means to spans follows from its signature: which queue it is of, whether it is work,
and what it proves done. Everything else is done in C.
"""

import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cotenant._native import Spans as NativeSpans
from cotenant.agent.process import Process
from cotenant.agent.recorder.ingest.batch import KNOWN, Batch
from cotenant.agent.recorder.ingest.gpu_numbers import GpuNumbers
from cotenant.agent.recorder.ingest.span_names import SpanNames
from cotenant.agent.recorder.processes.stream_kinds import (
    BLOCKING,
    NON_BLOCKING,
    UNKNOWN,
    StreamKinds,
)
from cotenant.probes.tables import BY_ID
from cotenant.schema.events import CUDA_RECORD, ENUMS

SPANNED: Final = "cuda"  # The family whose rows these are.
_SETTLE_NS: Final = 1_000_000_000  # A call that began before another may return so much later.
_HOLD_NS: Final = 600_000_000_000
_RENEW_NS: Final = 3_600_000_000_000  # Mixes are written again: retention deletes rows by age.
_RENEW_CROWDED_NS: Final = 10_000_000_000  # Names that no operation needs any more are dropped.

_NEVER: Final = (1 << 63) - 1

_OPS: Final = {text: number for number, text in ENUMS["cuda_op"].items()}
_WAYS: Final = {text: number for number, text in ENUMS["cuda_direction"].items()}
_BITS: Final = {
    field.column: field.known for field in CUDA_RECORD.fields if field.known is not None
}

# As in ``enum work`` and the flags of a signature.
_LAUNCH, _COPY, _OTHER = 1, 2, 3
_WORK: Final = {"launch": _LAUNCH, "graph_launch": _LAUNCH, "memcpy": _COPY, "memset": _OTHER}
_SIZED, _SIZED_BY_BYTES, _COLLECTIVE, _CONTEXT = 1, 2, 4, 8
_PROVES_STREAM, _PROVES_CONTEXT, _PROVES_BLOCKING, _IF_LARGE, _WAITS = 16, 32, 64, 128, 256
_RECORDED, _WOKEN, _SPUN, _NOT_READY, _BLOCKING, _NON_BLOCKING = 512, 1024, 2048, 4096, 8192, 16384
_SEEN: Final = {_WOKEN: 10, _SPUN: 11, _NOT_READY: 12}  # Bits of ``known``: CUDA_KNOWN_WOKEN.
_RECORDED_BIT: Final = 13

_DIMENSIONS: Final = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
_DEFAULT_STREAMS: Final = (0, 1)
_THREAD_STREAM: Final = 2

_SIGNATURE: Final = np.dtype(
    [
        ("process_start_ns", "<u8"),
        ("stream", "<i8"),
        ("cgroup_id", "<i8"),
        ("context", "<u8"),
        ("tenant", "<u8"),
        ("size", "<i8"),
        ("pid", "<u4"),
        ("gpu", "<i4"),
        ("api", "<u2"),
        ("flags", "<u2"),
        ("work", "u1"),
        ("reserved", "u1", 3),
    ]
)
SPAN: Final = np.dtype(
    [
        ("start_ns", "<i8"),
        ("end_ns", "<i8"),
        ("proof_ns", "<i8"),
        ("waited_ns", "<i8"),
        ("done_ns", "<i8"),
        ("certain_from_ns", "<i8"),
        ("certain_until_ns", "<i8"),
        ("queued_ns", "<i8"),
        ("stream", "<i8"),
        ("cgroup_id", "<i8"),
        ("context", "<u8"),
        ("launches", "<i8"),
        ("copies", "<i8"),
        ("copied_bytes", "<i8"),
        ("collectives", "<i8"),
        ("shed", "<i8"),
        ("extent", "<f8"),
        ("pid", "<u4"),
        ("gpu", "<i4"),
        ("streams", "<u4"),
        ("mix", "<i4"),
        ("api", "<u2"),
        ("closed_by", "u1"),
        ("has_context", "u1"),
        ("non_blocking", "<u4"),
    ]
)
SECOND: Final = np.dtype(
    [
        ("number", "<i8"),
        ("cgroup_id", "<i8"),
        ("launches", "<i8"),
        ("waits", "<i8"),
        ("waited_ns", "<i8"),
        ("copied_bytes", "<i8"),
        ("gpu", "<i4"),
        ("reserved", "<u4"),
    ]
)
_REFUSED: Final = np.dtype([("tenant", "<u8"), ("operations", "<u8")])
_ITEM: Final = np.dtype([("name", "<u8"), ("size", "<i8"), ("sized", "<u8")])
_COUNT: Final = np.dtype([("item", "<u4"), ("reserved", "<u4"), ("count", "<u8")])

_STREAM, _ALL, _EVENT, _UNKNOWN = 1, 2, 3, 4  # What a wait is for.
_WAITED_FOR: Final = (
    ("event", _EVENT),
    ("streamsynchronize", _STREAM),
    ("streamquery", _STREAM),
    ("ctxsynchronize", _ALL),
    ("devicesynchronize", _ALL),
    ("threadsynchronize", _ALL),
)


def _waited_for(symbol: str) -> int:
    if not symbol:
        return _UNKNOWN
    return next((what for part, what in _WAITED_FOR if part in symbol.lower()), 0)


def _by_function(value: Callable[[str], int]) -> npt.NDArray[np.uint8]:
    """A number for each function; the last for all that are unknown."""
    table = np.zeros(max(BY_ID) + 2, np.uint8)
    table[-1] = value("")
    for number, function in BY_ID.items():
        table[number] = value(function.symbol)
    return table


_WAITS_FOR: Final = _by_function(_waited_for)
_PER_THREAD: Final = _by_function(lambda symbol: symbol.endswith(("_ptsz", "_ptds")))

Spans = npt.NDArray[np.void]
Outermost = Callable[[int, int], str]  # The path of the tenant of the ids that an event carries.
Utc = Callable[[npt.NDArray[Any]], npt.NDArray[np.int64]]  # Of the kernel's clock.


class Mixes(NamedTuple):
    """Mixes that were not seen before: how many items each has, and these one after the other."""

    sizes: npt.NDArray[np.uint32]
    items: npt.NDArray[np.void]  # ``_ITEM``
    counts: npt.NDArray[np.uint64]


class ClosedSpans(NamedTuple):
    """What there is to write."""

    spans: Spans
    open: Spans  # As far as they are certain.
    fresh: Mixes
    epoch: int  # Numbers of mixes count within one.


class SpanMaker:
    """Feeds rows to the native part, and takes closed spans from it."""

    def __init__(self, now: Callable[[], int] = time.monotonic_ns) -> None:
        self._now = now
        self._native = NativeSpans(_SETTLE_NS, _HOLD_NS)
        self.streams = StreamKinds()
        self.gpus = GpuNumbers()
        self._tenants: dict[str, int] = {}  # By the path of the outermost cgroup.
        self._tenant_numbers = count()
        self._refused: Counter[str] = Counter()
        self._unnamed = 0  # Operations that there was no room for, because of their names.
        self._names = SpanNames()
        self._items = np.empty(0, _ITEM)
        self._epoch = 0
        self._renewed_ns = now()

    def begin(self, started_ns: int) -> None:
        """What began before, UTC, is of another recording as far as SQL can tell."""
        self._native.begin(started_ns)

    @property
    def names(self) -> dict[int, str]:
        """Names of kernels in mixes, by their number."""
        return self._names.by_number

    def gone(self, process: Process, ended_ns: int, tenant: str = "") -> None:
        """A process ended then, UTC."""
        self.streams.gone(process, tenant)
        self._native.gone(self._now(), process.pid, process.start_ns, ended_ns)

    def add(self, batch: Batch, rows: Any, outermost: Outermost, utc: Utc) -> None:
        """A batch, the rows that were made of it, who knows whose they are, and the clock."""
        signatures = self._signatures(batch, rows, outermost)
        codes, names = self._named(rows.column("kernel_name").combine_chunks(), batch, signatures)
        flags = signatures["flags"][batch.codes]
        sizes = _numbers(batch, "bytes")
        recorded = flags & _RECORDED != 0
        if recorded.any():
            sizes = np.array(sizes)
            sizes[recorded] = utc(batch.plain("bytes")[recorded]).astype(np.uint64)
        seen = np.zeros(batch.rows, np.int64)
        saw = flags & (_WOKEN | _SPUN | _NOT_READY) != 0
        if saw.any():
            seen[saw] = utc(batch.plain("seen_ns")[saw])
        self._native.add(
            self._now(),
            signatures,
            codes,
            np.ascontiguousarray(rows.column("timestamp_ns").to_numpy(), np.int64),
            _numbers(batch, "duration_ns"),
            sizes,
            names,
            seen,
            batch.plain("weight").astype(np.uint64),
        )

    def take(self, utc_ns: int, *, stopping: bool = False) -> ClosedSpans:
        """Spans that were closed since; all of them if the recording stops then."""
        epoch, closed, still_open, items, sizes, counts = self._native.take(
            self._now(), utc_ns, stopping
        )
        told = np.frombuffer(items, _ITEM)
        names = set(told["name"].tolist())
        if epoch != self._epoch:
            self._epoch = epoch
            self._items = told
            self._names.keep(names)
        else:
            self._items = np.concatenate([self._items, told]) if len(told) else self._items
            self._names.told(names)
        counted = np.frombuffer(counts, _COUNT)
        fresh = Mixes(
            np.frombuffer(sizes, np.uint32), self._items[counted["item"]], counted["count"]
        )
        due_ns = _RENEW_CROWDED_NS if self._names.crowded else _RENEW_NS
        if (now := self._now()) - self._renewed_ns >= due_ns:
            self._renewed_ns = now
            self._native.renew()
        taken = ClosedSpans(
            np.frombuffer(closed, SPAN), np.frombuffer(still_open, SPAN), fresh, epoch
        )
        # Operations are held for so long, and what is left of them once more.
        used = {*taken.spans["gpu"].tolist(), *taken.open["gpu"].tolist()}
        self.gpus.give_back(now - 2 * _HOLD_NS, used)
        return taken

    def take_seconds(self) -> npt.NDArray[np.void]:
        """What each tenant did in each second on each GPU, since it was last asked."""
        return np.frombuffer(self._native.seconds(), SECOND)

    def oldest_ns(self) -> int | None:
        """When the oldest operation began that is in no span yet; None if all are."""
        oldest = self._native.oldest()
        return None if oldest == _NEVER else oldest

    def counts(self) -> dict[str, int]:
        """What is held, and what there was no room for."""
        counts = self._native.counts()
        return counts | {"refused": counts["refused"] + self._unnamed}

    def refused(self) -> dict[str, int]:
        """Operations that there was no room for so far, by the path of the outermost cgroup."""
        told = dict(np.frombuffer(self._native.refused(), _REFUSED).tolist())
        # Tenants come and go; one that has nothing here gets a new number when it is back.
        self._tenants = {path: n for path, n in self._tenants.items() if n in told}
        self._refused += Counter({path: told[n] for path, n in self._tenants.items()})
        return dict(self._refused)

    def _signatures(self, batch: Batch, rows: Any, outermost: Outermost) -> npt.NDArray[np.void]:
        found = np.zeros(batch.signatures, _SIGNATURE)
        # What a tenant makes within its own cgroup gets it no more.
        codes, distinct = batch.key("cgroup_id", "cgroup_v1_id")
        tenants = [outermost(*ids) for ids in distinct.tolist()]
        found["tenant"] = np.array([self._tenant_number(tenant) for tenant in tenants])[codes]
        for name in ("process_start_ns", "pid", "api", "context"):
            found[name] = batch.field(name)
        # Any row of a signature tells whose all rows of it are, and where they ran.
        example = np.zeros(batch.signatures, np.int64)
        example[batch.codes] = np.arange(batch.rows)
        chosen = rows.select(["cgroup_id", "gpu"]).take(pa.array(example))
        found["cgroup_id"] = chosen.column("cgroup_id").to_numpy()
        gpus = chosen.column("gpu").combine_chunks()
        words = gpus.dictionary.to_pylist()
        places = gpus.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)
        found["gpu"] = self.gpus.find(
            words, places, lambda signature: tenants[codes[signature]], self._now()
        )
        known = batch.field(KNOWN)
        found["stream"] = _streams(batch, known)
        done = ~_has(known, "result") | (batch.field("result") == 0)
        found["work"] = np.where(done, _works(batch), 0)
        found["size"], sized = _threads(batch)
        flags = np.where(_has(known, "grid_x") & sized, _SIZED, 0)
        flags = np.where(found["work"] == _LAUNCH, flags, 0)
        by_bytes = (batch.field("op") != _OPS["launch"]) & _has(known, "bytes")
        flags |= np.where(by_bytes, _SIZED_BY_BYTES, 0)
        flags |= np.where(_has(known, "nccl_op") & _is_nccl(batch), _COLLECTIVE, 0)
        flags |= np.where(_has(known, "context"), _CONTEXT, 0)
        flags |= np.where(batch.field("op") == _OPS["sync"], _WAITS, 0)
        flags |= self._kinds(batch, known)
        found["flags"] = np.where(done, flags | _proves(batch, known, found["stream"]), 0)
        self._refuse(found, (found["gpu"] < 0) & (places < len(words)), batch)
        return found

    def _kinds(self, batch: Batch, known: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Which streams are known to be blocking, or not to be."""
        codes, distinct = batch.key("pid", "process_start_ns", "stream")
        kinds = {UNKNOWN: 0, BLOCKING: _BLOCKING, NON_BLOCKING: _NON_BLOCKING}
        flags = [
            kinds[self.streams.kind(Process(pid, start_ns), stream)]
            for pid, start_ns, stream in distinct.tolist()
        ]
        found = np.array(flags, np.int64)[codes]
        return np.where(_has(known, "stream"), found, 0)

    def _tenant_number(self, tenant: str) -> int:
        return self._tenants.setdefault(tenant, next(self._tenant_numbers))

    def _refuse(self, found: Spans, refused: npt.NDArray[np.bool_], batch: Batch) -> None:
        """Operations of GPUs that there is no number for: their spans have none."""
        refused = refused & ((found["work"] != 0) | (found["flags"] & _WAITS != 0))
        if not refused.any():
            return
        rows = np.bincount(batch.codes, minlength=batch.signatures)
        paths = {number: path for path, number in self._tenants.items()}
        for number in np.unique(found["tenant"][refused]).tolist():
            mine = refused & (found["tenant"] == number)
            self._refused[paths[number]] += int(rows[mine].sum())

    def _named(
        self, names: Any, batch: Batch, signatures: npt.NDArray[np.void]
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint64]]:
        """Each row's signature, none where there is no room for its name; and the name's number."""
        codes = np.ascontiguousarray(batch.codes, np.int32)
        paths = {number: path for path, number in self._tenants.items()}
        numbers, lacking = self._names.of_rows(names, signatures, codes, paths, _LAUNCH)
        if not lacking.any():
            return codes, numbers
        refused = signatures["tenant"][codes[lacking]].tolist()
        weights = batch.plain("weight")[lacking].tolist()
        for tenant, weight in zip(refused, weights, strict=True):
            self._refused[paths[tenant]] += weight
            self._unnamed += weight
        return np.where(lacking, np.int32(-1), codes), numbers


def _numbers(batch: Batch, name: str) -> npt.NDArray[np.uint64]:
    field = CUDA_RECORD.field(name)
    values = np.ascontiguousarray(batch.plain(name), np.uint64)
    unknown = batch.unknown(field)
    return values if unknown is None else np.where(unknown, np.uint64(0), values)


def _has(known: npt.NDArray[Any], column: str) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = known >> _BITS[column] & 1 == 1
    return found


def _function(batch: Batch) -> npt.NDArray[np.int64]:
    """Each signature's driver function as an index of tables by function."""
    found: npt.NDArray[np.int64] = batch.field("function").astype(np.int64)
    return np.minimum(found, len(_WAITS_FOR) - 1)


def _streams(batch: Batch, known: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """0 and 1 are the legacy default stream, 2 is one for each thread; some mean it by 0."""
    stream = batch.field("stream").astype(np.int64)
    named = _has(known, "stream")
    of_thread = (_PER_THREAD[_function(batch)] != 0) & (~named | (stream == 0))
    of_thread |= named & (stream == _THREAD_STREAM)
    default = ~named | np.isin(stream, _DEFAULT_STREAMS)
    return np.where(of_thread, -batch.field("tid").astype(np.int64), np.where(default, 0, stream))


def _works(batch: Batch) -> npt.NDArray[np.uint8]:
    table = np.zeros(max(_OPS.values()) + 2, np.uint8)
    for op, work in _WORK.items():
        table[_OPS[op]] = work
    found: npt.NDArray[np.uint8] = table[np.minimum(batch.field("op"), len(table) - 1)]
    return found


def _threads(batch: Batch) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The product of grid and block, and where it is a number that SQL can hold."""
    product = np.ones(batch.signatures, np.int64)
    fits = np.ones(batch.signatures, bool)
    for name in _DIMENSIONS:
        factor = batch.field(name).view(np.int32).astype(np.int64)
        most = np.abs(product.astype(np.float64) * factor)
        fits &= most < 2.0**62
        product *= factor
    return product, fits


def _is_nccl(batch: Batch) -> npt.NDArray[np.bool_]:
    return np.isin(batch.field("nccl"), list(ENUMS["nccl_op"]))


def _proves(
    batch: Batch, known: npt.NDArray[Any], streams: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """What a call of each signature proves done when it returns, and what is known of it."""
    op, direction = batch.field("op"), batch.field("direction")
    named, told = _has(known, "stream"), _has(known, "direction")
    waited_for = np.where(
        np.isin(op, (_OPS["sync"], _OPS["query"])), _WAITS_FOR[_function(batch)], 0
    )
    recorded = (waited_for == _EVENT) & (known >> _RECORDED_BIT & 1 == 1) & named
    unknown = waited_for == _UNKNOWN
    stream = (((waited_for == _STREAM) | unknown) & named) | recorded
    # A copy that names no stream returns when it is done; a small one to the device sooner.
    to_device, to_host = direction == _WAYS["HtoD"], direction == _WAYS["DtoH"]
    copies = (op == _OPS["memcpy"]) & ~named & told & (to_device | to_host)
    copied = np.where(streams == 0, _PROVES_BLOCKING, _PROVES_STREAM)
    found: npt.NDArray[np.int64] = (
        stream * _PROVES_STREAM
        + recorded * _RECORDED
        + ((waited_for == _ALL) | (unknown & ~named)) * _PROVES_CONTEXT
        + copies * (copied + to_device * _IF_LARGE)
    )
    for flag, bit in _SEEN.items():
        found |= np.where(known >> bit & 1 == 1, flag, 0)
    return found
