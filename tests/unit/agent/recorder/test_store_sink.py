"""A store that cannot take rows: they wait, they are given up, and all are counted."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from cotenant.agent.recorder import store_sink
from cotenant.agent.recorder.ingest.batch import Batch
from cotenant.agent.recorder.samplers.losses import Losses, Tally
from cotenant.agent.recorder.store_sink import StoreSink
from cotenant.errors import StoreError
from cotenant.store.writer import StoreWriter

OWNER = np.dtype([("cgroup_id", "u8"), ("cgroup_v1_id", "u8"), ("hierarchy", "u2")])
COLUMNS = SimpleNamespace(table="cuda_events", family="cuda")
TALLY = Tally("cuda", 9, 0, 0)


def nobody(entries):
    """Nobody's rows are made of these losses."""
    raise AssertionError


def batch_of(rows):
    owners = np.array([(9, 0, 0)], OWNER)
    return Batch(rows, {}, np.zeros(rows, np.int32), owners)


def rows_of(count):
    numbers = {c: [1] * count for c in ("timestamp_ns", "cgroup_id", "pid", "tid", "weight")}
    words = {c: ["x"] * count for c in ("comm", "op", "api", "kernel_name")}
    return pa.table({**numbers, **words})


@pytest.fixture
def writer(tmp_path):
    with StoreWriter(tmp_path / "store", node="n", boot_id="b") as store:
        yield store


def test_rows_are_stored_once_sealed(writer):
    losses = Losses(nobody)
    kept = StoreSink(writer, losses)
    assert kept.keep(COLUMNS, batch_of(101), rows_of(101))
    assert kept.seal(1)
    assert losses.stored == {TALLY: 101}
    assert (kept.miscounted, kept.trouble) == (0, None)


def test_a_seal_that_fails_is_tried_again_and_costs_nothing(writer, monkeypatch):
    losses = Losses(nobody)
    kept = StoreSink(writer, losses)
    kept.keep(COLUMNS, batch_of(101), rows_of(101))

    def full(*_):
        raise StoreError("the disk is full; free some space")

    with monkeypatch.context() as patched:
        patched.setattr(writer, "seal", full)
        assert not kept.seal(1)
    assert kept.trouble == "the disk is full; free some space"
    assert losses.stored == {}
    assert not kept.seal(2), "not at once"
    assert kept.seal(2, at_once=True)
    assert losses.stored == {TALLY: 101}
    assert kept.trouble is None


def test_rows_beyond_the_bound_are_counted_as_lost(writer, monkeypatch):
    monkeypatch.setattr(store_sink, "_EVENTS_BYTES", 0)
    losses = Losses(nobody)
    kept = StoreSink(writer, losses)
    assert kept.keep(COLUMNS, batch_of(101), rows_of(101))
    assert not kept.keep(COLUMNS, batch_of(53), rows_of(53))
    assert losses.lost == {TALLY: 53}
    assert kept.seal(1)
    assert losses.stored == {TALLY: 101}


def test_a_store_that_is_gone_ends_the_recording(writer):
    kept = StoreSink(writer, Losses(nobody))
    kept.keep(COLUMNS, batch_of(7), rows_of(7))
    writer.root.rename(writer.root.with_name("elsewhere"))
    with pytest.raises(StoreError, match="is gone; recording stops"):
        kept.seal(1)


def test_a_row_that_the_store_swallowed_is_noticed(writer, monkeypatch):
    kept = StoreSink(writer, Losses(nobody))
    kept.keep(COLUMNS, batch_of(101), rows_of(101))
    monkeypatch.setattr(writer, "seal", lambda *_: {"cuda_events": 100})
    kept.seal(1)
    assert kept.miscounted == -1


def test_what_says_that_something_is_missing_waits_for_room(tmp_path, monkeypatch):
    row = {"family": "cuda", "cgroup_id": 9, "reason": "store behind", "from_ns": 1, "to_ns": 2}
    row |= {"timestamp_ns": 2, "seen": 0, "stored": 0, "shed": 0, "lost": 7, "queued": 0}
    losses = pa.Table.from_pylist([row])
    with StoreWriter(tmp_path / "store", node="n", boot_id="b", max_buffered_bytes=40_000) as full:
        kept = StoreSink(full, Losses(nobody))
        monkeypatch.setattr(store_sink, "_EVENTS_BYTES", 40_000)
        while kept.keep(COLUMNS, batch_of(101), rows_of(101)):
            pass
        for _ in range(307):
            kept.append("losses", losses)
        assert kept.untold == 0
        assert kept.seal(1)
    segments = [s for s in full.segments if s.table == "losses"]
    assert sum(s.rows for s in segments) == 307
