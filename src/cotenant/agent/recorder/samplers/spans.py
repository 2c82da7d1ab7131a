"""Closed spans as rows of ``spans``, and each new mix of operations as rows of ``span_mixes``."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cotenant.agent.recorder.ingest.spans import ClosedSpans, Mixes, SpanMaker
from cotenant.agent.recorder.samplers.lost_windows import LostWindows
from cotenant.probes.tables import BY_ID
from cotenant.schema.mix_numbers import mix_numbers

# What proved it, by the operation of the proving call; else why it was closed: native/spans.h.
_PROOFS: Final = {"sync": "wait", "query": "query", "memcpy": "copy"}
_CLOSED_BY: Final = ("wait", "query", "copy", "exit", "age", "stop")
_PROVEN: Final = 1
_UNPROVEN: Final = {2: "exit", 3: "age", 4: "stop"}

Numbers = npt.NDArray[np.int64]


class SpanRows:
    """Writes the spans that were closed since the last sample."""

    table: Final = "spans"

    def __init__(self, maker: SpanMaker, lost: LostWindows) -> None:
        self._maker = maker
        self._lost = lost
        self._finished = False
        self._ids = np.empty(0, np.int64)  # Of mixes, by their number.
        self._epoch = 0
        self.mixes = MixRows()
        self.closed: ClosedSpans | None = None  # As taken last.

    def finish(self) -> None:
        """No more rows come: every span is closed."""
        self._finished = True

    def sample(self, now_ns: int) -> Any | None:
        """Rows for the spans that were closed; None if there are none."""
        self.closed = closed = self._maker.take(now_ns, stopping=self._finished)
        if closed.epoch != self._epoch:
            self._epoch, self._ids = closed.epoch, np.empty(0, np.int64)
        if len(closed.fresh.sizes):
            entries = _merged(closed.fresh)
            fresh = mix_numbers(entries, len(closed.fresh.sizes))
            whose = _owners(closed, len(self._ids), len(fresh))
            self._ids = np.concatenate([self._ids, fresh])
            self.mixes.add(now_ns, whose, fresh, entries, self._maker.names)
        return self._rows(closed) if len(closed.spans) else None

    def _rows(self, closed: ClosedSpans) -> Any:
        spans = closed.spans
        proven = spans["closed_by"] == _PROVEN
        mixless = spans["mix"] < 0
        mixes = self._ids[np.where(mixless, 0, spans["mix"])] if len(self._ids) else spans["mix"]
        plain = ("cgroup_id", "stream", "end_ns", "waited_ns", "launches", "copies")
        return pa.table(
            {name: spans[name] for name in (*plain, "copied_bytes", "collectives", "shed")}
            | {
                "timestamp_ns": spans["start_ns"],
                "pid": spans["pid"].astype(np.int32),
                "gpu": _words(spans["gpu"], self._maker.gpus.words),
                "context": pa.array(
                    spans["context"].view(np.int64), mask=spans["has_context"] == 0
                ),
                "proof_ns": pa.array(spans["proof_ns"], mask=~proven),
                "proof_api": _apis(spans["api"], proven),
                **{
                    name: pa.array(spans[name], mask=spans[name] == 0)
                    for name in ("done_ns", "certain_from_ns", "certain_until_ns")
                },
                "closed_by": _closed_by(spans, proven),
                "streams": spans["streams"].astype(np.int32),
                "total_extent": spans["extent"],
                "mix": pa.array(mixes.astype(np.int64), mask=mixless),
                "lost": self._lost.touch(spans),
            }
        )


class MixRows:
    """Writes each mix when a tenant's span first has it."""

    table: Final = "span_mixes"

    def __init__(self) -> None:
        self._waiting: list[Any] = []

    def add(
        self,
        now_ns: int,
        owners: Numbers,
        mixes: Numbers,
        entries: npt.NDArray[np.void],
        names: dict[int, str],
    ) -> None:
        """New mixes, whose they are, and what they are made of; each tenant's mix once.

        Mixes that differ only in the context or GPU of their operations have one number.
        """
        _, first = np.unique(np.stack([mixes, owners]), axis=1, return_index=True)
        chosen = np.zeros(len(mixes), bool)
        chosen[first] = True
        entries = entries[chosen[entries["mix"]]]
        distinct, places = np.unique(entries["name"], return_inverse=True)
        self._waiting.append(
            pa.table(
                {
                    "timestamp_ns": np.full(len(entries), now_ns, np.int64),
                    "cgroup_id": owners[entries["mix"]],
                    "mix": mixes[entries["mix"]],
                    "kernel_name": pa.DictionaryArray.from_arrays(
                        pa.array(places.astype(np.int32)),
                        pa.array([names[number] for number in distinct.tolist()], pa.string()),
                    ),
                    "size": pa.array(entries["size"], mask=entries["sized"] == 0),
                    "count": entries["count"].astype(np.int64),
                }
            )
        )

    def sample(self, now_ns: int) -> Any | None:
        """Rows for the mixes that are new; None if there are none."""
        waiting, self._waiting = self._waiting, []
        return pa.concat_tables(waiting).unify_dictionaries() if waiting else None


_ENTRY: Final = np.dtype(
    [("mix", "<i8"), ("name", "<u8"), ("size", "<i8"), ("sized", "<u8"), ("count", "<u8")]
)


def _merged(fresh: Mixes) -> npt.NDArray[np.void]:
    """One entry for each mix, name and size, in that order."""
    entries = np.zeros(len(fresh.counts), _ENTRY)
    entries["mix"] = np.repeat(np.arange(len(fresh.sizes)), fresh.sizes)
    for name in ("name", "size", "sized"):
        entries[name] = fresh.items[name]
    entries["count"] = fresh.counts
    keys = ("sized", "size", "name", "mix")
    entries = entries[np.lexsort([entries[key] for key in keys])]
    first = np.ones(len(entries), bool)
    first[1:] = np.any([entries[key][1:] != entries[key][:-1] for key in keys], axis=0)
    merged = entries[first]
    merged["count"] = np.add.reduceat(entries["count"], np.flatnonzero(first))
    return merged


def _owners(closed: ClosedSpans, known: int, fresh: int) -> Numbers:
    """Whose each new mix is: that of a span that has it."""
    owners = np.zeros(fresh, np.int64)
    new = closed.spans[closed.spans["mix"] >= known]
    owners[new["mix"] - known] = new["cgroup_id"]
    return owners


def _words(numbers: npt.NDArray[Any], words: list[str]) -> Any:
    indices = pa.array(numbers.astype(np.int32), mask=numbers < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(words, pa.string()))


def _apis(apis: npt.NDArray[Any], proven: npt.NDArray[np.bool_]) -> Any:
    distinct, places = np.unique(apis, return_inverse=True)
    words = [BY_ID[number].symbol if number in BY_ID else "" for number in distinct.tolist()]
    indices = pa.array(places.astype(np.int32), mask=~proven)
    return pa.DictionaryArray.from_arrays(indices, pa.array(words, pa.string()))


def _closed_by(spans: npt.NDArray[np.void], proven: npt.NDArray[np.bool_]) -> Any:
    table = np.zeros(256, np.int32)
    for number, word in _UNPROVEN.items():
        table[number] = _CLOSED_BY.index(word)
    distinct, places = np.unique(spans["api"], return_inverse=True)
    proofs = np.array([_CLOSED_BY.index(_proof(number)) for number in distinct.tolist()], np.int32)
    codes = np.where(proven, proofs[places], table[spans["closed_by"]])
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(_CLOSED_BY, pa.string()))


def _proof(api: int) -> str:
    function = BY_ID.get(api)
    return _PROOFS.get(function.op if function else "", "wait")
