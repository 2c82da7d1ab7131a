"""NCCL columns: which communicator, which rank of it, and how much it moved."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from cotenant.agent.process import Process
from cotenant.agent.recorder.ingest.batch import Batch
from cotenant.agent.recorder.ingest.columns.plain import Needs
from cotenant.agent.recorder.processes.communicators import Communicator, Communicators
from cotenant.schema.events import ENUMS
from cotenant.schema.wire import Field

_KEY: Final = ("pid", "process_start_ns", "communicator")
# Each rank gives or takes one part; the operation moves as many as there are ranks.
_PER_RANK: Final = frozenset(
    number
    for number, op in ENUMS["nccl_op"].items()
    if op in ("AllGather", "ReduceScatter", "AlltoAll")
)


def _members(communicators: Communicators, batch: Batch) -> tuple[Any, list[Communicator]]:
    codes, distinct = batch.key(*_KEY)
    return codes, [
        communicators.find(Process(pid, start_ns), handle)
        for pid, start_ns, handle in distinct.tolist()
    ]


class MembershipColumn:
    """``comm:hash``, ``comm:name``, ``comm:rank``, ``comm:nranks``."""

    def __init__(self, communicators: Communicators) -> None:
        self._communicators = communicators

    def needs(self, field: Field) -> Needs:
        """The communicator's address in its process."""
        return [], [_KEY]

    def make(self, batch: Batch, field: Field) -> Any:
        """What is known of it; NULL where nothing is."""
        part = (field.maker or "").partition(":")[2]
        codes, members = _members(self._communicators, batch)
        values = [getattr(member, part) for member in members]
        if part == "name":
            return batch.spread(codes, values)
        missing = np.array([value is None for value in values])
        numbers = np.array([value or 0 for value in values], np.int64)
        kind = pa.int64() if part == "hash" else pa.int32()
        return batch.each(pa.array(numbers[codes], mask=missing[codes])).cast(kind)


class CollectiveBytesColumn:
    """Bytes of the whole operation; NULL where that takes a number of ranks we do not know."""

    def __init__(self, communicators: Communicators) -> None:
        self._communicators = communicators

    def needs(self, field: Field) -> Needs:
        """One rank's part, the operation, and the communicator."""
        return [field.name, "op"], [_KEY]

    def make(self, batch: Batch, field: Field) -> Any:
        """One rank's part, times the ranks where each has one."""
        codes, members = _members(self._communicators, batch)
        known = np.array([member.nranks or 0 for member in members], np.int64)
        ranks = np.asarray(batch.each(known[codes]))
        spread = np.isin(batch.plain("op"), list(_PER_RANK))
        part = batch.plain(field.name).astype(np.int64)
        unknown = batch.unknown(field)
        missing = (ranks == 0) & spread
        if unknown is not None:
            missing = missing | unknown
        return pa.array(np.where(spread, part * ranks, part), mask=missing)
