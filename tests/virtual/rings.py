"""A recorder without a kernel: records in rings that a test fills, rows and spans in a store."""

import os
import struct

import numpy as np

from cotenant.agent.process import Process
from cotenant.agent.protocol.reports import DevicesFound
from cotenant.agent.recorder.blind_spots import BlindSpots
from cotenant.agent.recorder.ingest.clock import WallClock
from cotenant.agent.recorder.ingest.intake import Intake
from cotenant.agent.recorder.ingest.rollups import Rollups
from cotenant.agent.recorder.ingest.spans import SpanMaker
from cotenant.agent.recorder.processes.gpu_processes import GpuProcesses
from cotenant.agent.recorder.samplers.containers import Containers
from cotenant.agent.recorder.samplers.gpu_seconds import GpuSeconds
from cotenant.agent.recorder.samplers.holes import Holes
from cotenant.agent.recorder.samplers.losses import Losses
from cotenant.agent.recorder.samplers.not_recorded import NotRecorded
from cotenant.agent.recorder.samplers.spans import SpanRows
from cotenant.agent.recorder.store_sink import StoreSink
from cotenant.identity.ledger import Ledger
from cotenant.probes.programs import facts_ring_bytes, names_ring_bytes
from cotenant.probes.tables import FUNCTIONS
from cotenant.query.engine.session import Session
from cotenant.schema.dimensions import SESSIONS
from cotenant.schema.events import CUDA_RECORD, ENUMS
from cotenant.store.segment import rows_of
from cotenant.store.writer import StoreWriter
from tests.virtual.spans_of_rows import spans_of_rows

PAGE = os.sysconf("SC_PAGESIZE")
EVENTS_BYTES = 1 << 26
OFFSET_NS = 1_790_000_000_000_000_000  # Of UTC: the kernel's clock begins at 0.
KIND_CUDA = 1
ENDED = next(n for n, text in ENUMS["fact_kind"].items() if text == "PROCESS_GONE")
BY_SYMBOL = {function.symbol: function for function in FUNCTIONS}
_WIRE = {f.name: f for f in CUDA_RECORD.fields if f.type != "S0"}
WIRE = np.dtype(
    {
        "names": list(_WIRE),
        "formats": [f.type for f in _WIRE.values()],
        "offsets": [f.offset for f in _WIRE.values()],
        "itemsize": 176,
    }
)
# CUDA_KNOWN_WOKEN and so on: bits without a column.
_SEEN = {"woken": 10, "spun": 11, "not_ready": 12}
_RECORDED = 13
_OPS = {text: number for number, text in ENUMS["cuda_op"].items()}
_WAYS = {text: number for number, text in ENUMS["cuda_direction"].items()}


class FakeRing:
    """What a BPF ring buffer looks like to its reader; records do not wrap around."""

    def __init__(self, size):
        self.fd = os.memfd_create("ring")
        os.ftruncate(self.fd, 2 * PAGE + 2 * size)
        self._size = size
        self._end = 0

    def add(self, *records):
        """Records of whole words that their producers have committed."""
        written = b"".join(struct.pack("<II", len(each), 0) + each for each in records)
        assert self._end + len(written) < self._size
        os.pwrite(self.fd, written, 2 * PAGE + self._end)
        self._end += len(written)
        os.pwrite(self.fd, struct.pack("<Q", self._end), PAGE)

    def extend(self, records):
        """An array of records of one length, at most as many as there is room for."""
        length = records.itemsize
        framed = np.zeros(
            len(records), [("length", "<u4"), ("rest", "<u4"), ("record", "V", length)]
        )
        framed["length"], framed["record"] = length, records.view(f"V{length}")
        assert length % 8 == 0
        assert framed.nbytes <= self._size
        # A record that begins before the ring's end goes on behind it; the next is at its start.
        before = -(-(self._size - self._end % self._size) // framed.itemsize)
        for part in (framed[:before], framed[before:]):
            os.pwrite(self.fd, part.tobytes(), 2 * PAGE + self._end % self._size)
            self._end += part.nbytes
        os.pwrite(self.fd, struct.pack("<Q", self._end), PAGE)


class _NoHelper:
    def ask(self, request):
        pass

    def hear_until(self, answer, seconds):
        return False


def call(symbol, at, took=0, *, pid=7, tid=None, cgroup=1, seen=(), recorded=None, **more):
    """One call as its ring record; times are of the kernel's clock.

    Its thread ``seen`` the device: "woken", "spun" or "not_ready", and when; or it waited for what
    was ``recorded`` then.
    """
    function = BY_SYMBOL[symbol]
    record = np.zeros((), WIRE)
    known = dict.fromkeys(("duration_ns", "result"), True)
    more = {"result": 0, "weight": 1, "handle": 0, **more}
    if "direction" in more:
        more["direction"] = _WAYS[more["direction"]]
    if "threads" in more:
        more["grid_x"] = more.pop("threads")
        more |= {name: 1 for name in ("grid_y", "grid_z", "block_x", "block_y", "block_z")}
    values = {"timestamp_ns": at, "duration_ns": took, "pid": pid, "tid": tid or pid}
    values |= {"cgroup_id": cgroup, "process_start_ns": pid * 1000, "kind": KIND_CUDA}
    values |= {"size": 176, "op": _OPS[function.op], "api": function.id, "comm": b"python"}
    for name, value in (values | {"function": function.id} | more).items():
        record[name] = value
    bits = {f.name: f.known for f in _WIRE.values() if f.known is not None}
    record["known"] = sum({1 << bit for name, bit in bits.items() if name in more or name in known})
    for what, when in [seen] if seen else []:
        record["seen_ns"] = when
        record["known"] |= 1 << _SEEN[what]
    if recorded is not None:
        record["bytes"] = recorded
        record["known"] |= 1 << _RECORDED
    return record.tobytes()


class VirtualRecorder:
    """The way of a row from the ring to the store, step by step, at times of the test's choice."""

    def __init__(self, root, node="node-a", *, ring_bytes=EVENTS_BYTES):
        self.root = root
        self.now_ns = 0
        self.events = FakeRing(ring_bytes)
        self._facts, self._names = FakeRing(facts_ring_bytes()), FakeRing(names_ring_bytes())
        self.ledger = Ledger(node, "boot-1")
        clock = WallClock(lambda: OFFSET_NS)
        clock.sample()
        self._gpus = GpuProcesses("seed", self.ledger, _NoHelper(), "both", clock)
        self._gpus.spans = self.maker = SpanMaker(lambda: self.now_ns)
        self.intake = Intake(self.ledger, self._gpus, clock)
        self._identities = FakeRing(facts_ring_bytes())
        maps = {"events": self.events.fd, "facts": self._facts.fd, "names": self._names.fd}
        maps["identities"] = self._identities.fd
        self.drain = self.intake.open(maps, ring_bytes)
        self.writer = StoreWriter(root, node=node, boot_id="boot-1")
        self.losses = Losses(lambda entries: entries["cgroup_id"])
        self.sink = StoreSink(self.writer, self.losses)
        self._rollups = Rollups()
        self._blind_spots = BlindSpots(Holes(self.ledger), clock)
        self.spans = SpanRows(self.maker, self.losses.gpu_windows)
        self.seconds = GpuSeconds(
            self.maker, self.spans, NotRecorded(self._rollups, list), self.ledger, dict
        )
        self._containers = Containers(self.ledger)

    def cgroup(self, kernel_id, path):
        """A cgroup of the host."""
        self.ledger.born(0, kernel_id, path, OFFSET_NS)

    def opened(self, pid, gpu):
        """A process has the device file of a GPU open."""
        process = Process(pid, pid * 1000)
        self._gpus.devices.works(process, (0, 0))
        self._gpus.devices.found(DevicesFound(process, (gpu,), (), mps=False))

    def began(self, at=0, spans_until_ns=None):
        """The row of this recording; its rows are counted from then on."""
        row = {"session_id": f"s{at}", "node": self.ledger.node, "boot_id": "boot-1"}
        row |= {"kernel": "6.1", "started_ns": OFFSET_NS + at, "wall_offset_ns": OFFSET_NS}
        row |= {"attach_method": "multi", "layers": "auto", "hierarchy": "v2"}
        row |= {"spans_until_ns": spans_until_ns}
        self.maker.begin(OFFSET_NS + at)
        self.writer.replace("sessions", rows_of(SESSIONS, [row]))

    def cycle(self, now_ns):
        """Everything that came since, into the store."""
        self.now_ns = now_ns
        self.drain.catch_up()
        self.intake.keep(self.intake.take(), self.sink, self._rollups, self._blind_spots)
        self.sample()

    def sample(self):
        """What a second brings."""
        seconds = (self.seconds, self.seconds.overlaps, self._rollups)
        for sampler in (self.spans, self.spans.mixes, *seconds):
            rows = sampler.sample(OFFSET_NS + self.now_ns)
            if rows is not None:
                self.writer.append(sampler.table, rows)

    def tell(self):
        """Whose the rows are."""
        rows = self._containers.sample(OFFSET_NS + (1 << 50))
        if rows is not None:
            self.writer.replace("containers", rows)

    def seal(self):
        """What there is so far, into files of its own."""
        self.writer.seal(OFFSET_NS + self.now_ns)

    def finish(self):
        """Close every span, and seal everything."""
        self._rollups.finish()
        self.spans.finish()
        self.sample()
        self.end()

    def end(self):
        """Seal what there is."""
        self.tell()
        self.seal()
        self.writer.close()


def stored_and_derived(root):
    """The spans of a store as they were stored, and as its rows say; ends where they are proven."""
    with Session(root) as session:
        derived = spans_of_rows(session)
        names = ", ".join(derived[0]) if derived else "*"
        stored = session.ask(f"select {names} from spans").rows()
    for span in (*stored, *derived):
        if not span["proven"]:  # No call proves several streams done.
            span["end_ns"] = span["streams"] = None
    return [sorted(rows, key=lambda row: str(list(row.values()))) for rows in (stored, derived)]


_OVERLAPS = """
select a.tenant, b.tenant as other, sum(o.overlap_ns)::bigint as ns
from gpu_overlaps o
join containers a on a.cgroup_id = o.cgroup_id
join containers b on b.cgroup_id = o.other_cgroup_id
group by all order by all
"""
_COUNTS = "sum(launches)::bigint as launches, sum(copied_bytes)::bigint as copied_bytes"


def seconds_and_spans(root):
    """Busy time, what is shared of it, and counts: second by second, and by span."""
    by_second = (
        "select tenant, sum(queued_ns)::bigint as ns from gpu_seconds join containers "
        "using (cgroup_id) group by all having ns > 0 order by all",
        _OVERLAPS,
        "select tenant, sum(overlapped_ns)::bigint as ns from gpu_seconds join containers "
        "using (cgroup_id) group by all having ns > 0 order by all",
        f"select tenant, {_COUNTS} from gpu_seconds join containers "
        "using (cgroup_id) group by all having launches + copied_bytes > 0 order by all",
        "select tenant, sum(unproven_ns) >= 0 as sane from gpu_seconds join containers "
        "using (cgroup_id) group by all having sum(queued_ns) > 0 order by all",
    )
    by_span = (
        "select tenant, sum(queued_ns)::bigint as ns from queued "
        "group by all having ns > 0 order by all",
        "select tenant, other, overlap_ns as ns from shared_time order by all",
        "select tenant, overlap_ns as ns from shared_time order by all",
        f"select tenant, {_COUNTS} from spans group by all "
        "having launches + copied_bytes > 0 order by all",
        "select tenant, true as sane from queued group by all "
        "having sum(queued_ns) > 0 order by all",
    )
    with Session(root) as session:
        return [[session.ask(sql).rows() for sql in way] for way in (by_second, by_span)]
