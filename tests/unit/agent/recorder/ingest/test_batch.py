"""Batches: what makers see of drained records, against the records themselves."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cotenant.agent.recorder.ingest.batch import DrainPlan
from cotenant.agent.recorder.ingest.columns.eras import by_time
from cotenant.schema.wire import Field, Record

RECORD = Record(
    "toy",
    (
        Field("timestamp_ns", 0, "<u8", "timestamp_ns", "time", None),
        Field("pid", 8, "<u4", "pid", None, None),
        Field("tid", 12, "<u4", "tid", None, None),
        Field("op", 16, "<u2", "op", "enum:toy_op", None),
        Field("known", 18, "<u2", None, None, None),
        Field("shape", 24, "<u4", "shape", None, 0),
        Field("comm", 28, "S4", "comm", None, None),
        Field("bytes", 32, "<u8", "bytes", None, 1),
    ),
)
FIELDS = {field.name: field for field in RECORD.fields}
WORDS = [None, "launch", "copy"]

records = st.lists(
    st.tuples(
        st.integers(0, 2**63 - 1),  # timestamp_ns
        st.integers(1, 3),  # pid
        st.integers(1, 2),  # tid
        st.integers(0, 4),  # op: also those that no word is for
        st.integers(0, 3),  # known
        st.integers(0, 2),  # shape
        st.sampled_from([b"a", b"bb", b"c\0\0d"]),
        st.integers(0, 2**56),
    ),
    min_size=1,
    max_size=50,
)


def taken(plan, rows):
    """What the native drain hands over for these records."""
    names = list(FIELDS)
    varying = [f.name for f in plan._varying]
    signatures, codes = {}, []
    for row in rows:
        signature = np.zeros(1, plan._signature)
        for name in plan._signature.names:
            signature[name] = row[names.index(name)]
        codes.append(signatures.setdefault(signature.tobytes(), len(signatures)))
    plain = [
        np.array([row[names.index(n)] for row in rows], FIELDS[n].type).tobytes() for n in varying
    ]
    return len(rows), plain, [(np.array(codes, np.int32).tobytes(), b"".join(signatures))]


def batch_of(rows):
    plan = DrainPlan(RECORD, [n for n in FIELDS if n != "comm"], [("comm",), ("pid", "op")])
    return plan.read(taken(plan, rows))


@given(records)
def test_every_field_reads_back_as_it_was(rows):
    batch = batch_of(rows)
    for at, name in enumerate(FIELDS):
        if name != "comm":
            assert batch.plain(name).tolist() == [row[at] for row in rows]


@given(records)
def test_numbers_are_null_where_unknown(rows):
    batch = batch_of(rows)
    assert batch.numbers(FIELDS["shape"]).to_pylist() == [r[5] if r[4] & 1 else None for r in rows]
    assert batch.numbers(FIELDS["bytes"]).to_pylist() == [r[7] if r[4] & 2 else None for r in rows]
    assert batch.numbers(FIELDS["pid"]).to_pylist() == [row[1] for row in rows]


@given(records)
def test_words_are_null_where_there_is_none(rows):
    expected = [WORDS[row[3]] if row[3] < len(WORDS) else None for row in rows]
    assert batch_of(rows).words(FIELDS["op"], WORDS).to_pylist() == expected


@given(records)
def test_keys_number_distinct_tuples(rows):
    batch = batch_of(rows)
    codes, distinct = batch.key("pid", "op")
    each = batch.each(codes).to_pylist()
    assert [tuple(distinct[code]) for code in each] == [(row[1], row[3]) for row in rows]
    assert len(distinct) == len({(row[1], row[3]) for row in rows})


@given(records)
def test_tallies_count_the_rows_of_distinct_tuples(rows):
    distinct, counts = batch_of(rows).tally("pid", "op")
    found = {tuple(entry): count for entry, count in zip(distinct.tolist(), counts, strict=True)}
    assert found == Counter((row[1], row[3]) for row in rows)


@given(records, st.integers(0, 50))
def test_text_whose_meaning_changed_is_told_by_time(rows, moment):
    rows = [(at, *row[1:]) for at, row in enumerate(rows)]
    batch = batch_of(rows)
    codes, distinct = batch.key("pid", "op")
    words = [f"{entry['op']}" for entry in distinct]
    eras = [(0, "old"), (moment, "new")]
    changed = {code: eras for code, entry in enumerate(distinct) if entry["op"] == 1}
    told = by_time(batch, codes, words, changed).to_pylist()
    expected = [
        ("new" if row[0] >= moment else "old") if row[3] == 1 else f"{row[3]}" for row in rows
    ]
    assert told == expected


@given(records)
def test_text_spreads_over_rows_though_tuples_share_it(rows):
    batch = batch_of(rows)
    codes, distinct = batch.key("pid", "op")
    words = [None if entry["op"] == 0 else f"{entry['op']}" for entry in distinct]
    spread = batch.spread(codes, words)
    assert spread.to_pylist() == [None if row[3] == 0 else f"{row[3]}" for row in rows]
    assert len(set(spread.dictionary.to_pylist())) == len(spread.dictionary)
