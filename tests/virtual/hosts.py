"""Stores to look at a page with: forty tenants, and a recording that goes on while one looks."""

import random
import time

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cotenant.schema import TABLES
from cotenant.store.manifest import current_segments
from cotenant.store.segment import conform
from cotenant.store.writer import StoreWriter
from tests.virtual.device import START_NS, Gpu
from tests.virtual.store import BOOT, NODE, VirtualStore

SECOND = 1_000_000_000


def forty_tenants(root, seed=1, length=6 * SECOND):
    """Four on each of ten GPUs; on each the first slows the others."""
    dice, store = random.Random(seed), VirtualStore(root)
    for place in range(10):
        gpu = Gpu()
        for number in range(4):
            name = f"team-{place}/{'batch' if number == 0 else 'model'}-{number}"
            process = gpu.process(name, 1.0 if number else 1.8)
            gpu.live(process, _bursts(dice, process, length))
        gpu.run(length)
        for process, _ in gpu._lives:
            store.process(process, gpu=f"GPU-{place}")
    store.complete("cuda")
    return store.write()


def _bursts(dice, process, length):
    while process.gpu.now < length:
        yield from process.sleep(dice.expovariate(1 / 300e6))
        stop = process.gpu.now + dice.expovariate(1 / 150e6)
        while process.gpu.now < stop:
            process.launch(f"kernel_{dice.randrange(3)}", dice.uniform(5e5, 2e6))
            yield from process.sync()
            yield from process.sleep(2e5)


# Columns with times of day.
MOMENTS = {"timestamp_ns", "end_ns", "proof_ns", "done_ns", "certain_from_ns", "certain_until_ns"}


class Growing:
    """A recording that has begun and not ended: the rows of another one, as if they came now."""

    def __init__(self, store, root, first_s):
        self.root = root
        self._rows = {}
        for segment in current_segments(store):
            rows = conform(TABLES[segment.table], pq.ParquetFile(store / segment.path).read())
            self._rows[segment.table] = rows
        self._until = START_NS
        self._shift = time.time_ns() - START_NS - round(first_s * SECOND)
        self._writer = StoreWriter(root, node=NODE, boot_id=BOOT)
        self._writer.replace("containers", self._rows.pop("containers"))
        self._writer.replace("sessions", pa.Table.from_pylist([_begun(START_NS + self._shift)]))
        self.grow(first_s)

    def grow(self, seconds):
        """What the other recording has in its next seconds."""
        start, self._until = self._until, self._until + round(seconds * SECOND)
        for name, rows in self._rows.items():
            at = rows.column("timestamp_ns")
            part = rows.filter(pc.and_(pc.greater_equal(at, start), pc.less(at, self._until)))
            for column in MOMENTS & {*part.column_names}:
                moved = pc.add(part.column(column), self._shift)
                part = part.set_column(part.column_names.index(column), column, moved)
            self._writer.append(name, part)
        self._writer.seal(time.time_ns())

    def close(self):
        """Let go of the store; the recording never says that it has ended."""
        self._writer.close()


def _begun(at_ns):
    row = {"session_id": "s", "node": NODE, "boot_id": BOOT, "kernel": "6.1", "started_ns": at_ns}
    row |= {"wall_offset_ns": 0, "attach_method": "multi", "layers": "auto", "hierarchy": "v2"}
    return row
