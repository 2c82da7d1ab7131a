"""Spans of recordings that were cut short: what was not stored any more is derived from rows.

A recording notes up to which time its spans are stored (``spans_until_ns``). If it was killed, the
next one on that host has the rest derived before it begins.
"""

import os
import select
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from cotenant.schema.mix_numbers import mix_numbers, name_number
from cotenant.store.manifest import current_segments
from cotenant.store.plain_file import is_plain

_PATIENCE_S: Final = 120
_WORDS_MAX: Final = 4096
# A span is there already if the same call proved it, or if one without proof reaches as far.
_MISSING: Final = """
from spans_of_rows d
where d.node = $node and not exists (
    from whole.spans s
    where s.node = d.node and s.pid = d.pid and s.stream = d.stream
      and (s.proof_ns = d.proof_ns or (d.proof_ns is null and s.end_ns >= d.end_ns))
)
order by d.start_ns
"""
_ITEMS: Final = """
select pid, stream, proof_ns, tenant, kernel_name, size, sum(weight)::bigint as count
from gpu_work
where node = $node
group by all
"""
_STORED: Final = (
    "timestamp_ns", "cgroup_id", "pid", "gpu", "context", "stream", "end_ns", "proof_ns",
    "waited_ns", "proof_api", "streams", "launches", "copies", "copied_bytes", "collectives",
    "total_extent", "shed",
)  # fmt: skip


def complete_in_child(store: Path, node: str) -> str | None:
    """Derive what is missing, in a process of its own; why that failed, if it did.

    It runs no other program: the files of one may lie where our user cannot go any more. All of it
    is done there: threads that read Parquet would keep rights that we are about to give up.
    """
    segments = current_segments(store)
    if not any(segment.table == "sessions" and segment.node == node for segment in segments):
        return None
    heard, told = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        try:
            complete(store, node)
        except Exception as error:  # noqa: BLE001 - told, and the recording goes on
            os.write(told, str(error).encode()[:_WORDS_MAX] or b"failed")
        finally:
            os._exit(0)
    os.close(told)
    ended, _, _ = select.select([heard], [], [], _PATIENCE_S)
    if not ended:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    words = os.read(heard, _WORDS_MAX).decode("utf-8", "replace") if ended else ""
    os.close(heard)
    words = words if ended else f"not derived in {_PATIENCE_S} s"
    return f"spans of the last recording are incomplete: {words}" if words else None


def _cut_short(store: Path, node: str) -> Iterable[dict[str, Any]]:
    """The rows of recordings that did not end, and whose spans are not all stored."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for segment in current_segments(store):
        if (
            segment.table != "sessions"
            or segment.node != node
            or not is_plain(store / segment.path)
        ):
            continue
        try:
            rows = pq.read_table(store / segment.path, partitioning=None).to_pylist()
        except (OSError, pa.ArrowException):
            continue
        yield from (row for row in rows if row.get("spans_until_ns") is not None)


def complete(store: Path, node: str) -> int:
    """Derive and store what is missing; how many spans that was."""
    recordings = sorted(_cut_short(store, node), key=lambda row: row["started_ns"])
    found = 0
    for at, row in enumerate(recordings):
        following = recordings[at + 1] if at + 1 < len(recordings) else None
        until = following["spans_from_ns"] if following else None
        found += _complete_one(store, node, row, until)
    return found


def _complete_one(store: Path, node: str, recording: dict[str, Any], to_ns: int | None) -> int:
    import pyarrow as pa

    from cotenant.query.engine.session import QueryLimits, Session
    from cotenant.store.writer import StoreWriter

    from_ns = recording["spans_until_ns"]
    limits = QueryLimits(derive_spans=True)
    with Session(store, from_ns=from_ns, to_ns=to_ns, limits=limits) as session:
        spans = session.ask(_MISSING, {"node": node}, rows=1 << 30).rows()
        items = session.ask(_ITEMS, {"node": node}, rows=1 << 30).rows() if spans else []
    with StoreWriter(store, node=node, boot_id=recording["boot_id"]) as writer:
        if spans:
            mixes = _mixes(spans, items)
            rows = [_row(span) for span in spans]
            writer.append("spans", pa.Table.from_pylist(rows))
            writer.append("span_mixes", pa.Table.from_pylist(mixes))
        whole = {name: [value] for name, value in recording.items() if name != "spans_until_ns"}
        writer.replace("sessions", pa.table({**whole, "spans_until_ns": pa.nulls(1, pa.int64())}))
        writer.seal(max((span["end_ns"] for span in spans), default=from_ns))
    return len(spans)


def _row(span: dict[str, Any]) -> dict[str, Any]:
    row = {name: span[name] for name in _STORED} | {"mix": span["mix"]}
    return row | {"closed_by": span["closed_by"] or "stop", "lost": False}


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["pid"], row["stream"], row["proof_ns"], row["tenant"]


def _entry(item: dict[str, Any]) -> tuple[int, int, int, bool, int]:
    size = item["size"]
    return 0, name_number(item["kernel_name"]), size or 0, size is not None, item["count"]


def _mixes(spans: list[dict[str, Any]], items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give each span the number of its mix; the rows of these mixes."""
    import numpy as np

    by_span: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for item in items:
        by_span.setdefault(_key(item), []).append(item)
    rows = {}
    kind = [("mix", "<i8"), ("name", "<u8"), ("size", "<i8"), ("sized", "<u8"), ("count", "<u8")]
    for span in spans:
        own = by_span.get(_key(span), [])
        entries = np.array(
            sorted(
                (
                    0,
                    name_number(i["kernel_name"]),
                    i["size"] or 0,
                    i["size"] is not None,
                    i["count"],
                )
                for i in own
            ),
            kind,
        )
        span["mix"] = int(mix_numbers(entries, 1)[0])
        for item in own:
            row = {"timestamp_ns": span["end_ns"], "cgroup_id": span["cgroup_id"]}
            row |= {"mix": span["mix"]} | {n: item[n] for n in ("kernel_name", "size", "count")}
            rows[span["cgroup_id"], span["mix"], item["kernel_name"], item["size"]] = row
    return list(rows.values())
