"""Dispatches the kernel's facts to the objects that keep them."""

from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from cotenant.agent.process import Process
from cotenant.agent.recorder.ingest.clock import WallClock
from cotenant.agent.recorder.processes.communicators import Communicator, Communicators
from cotenant.agent.recorder.processes.kernel_names import KernelNames
from cotenant.identity.ledger import Ledger
from cotenant.identity.text import path_text
from cotenant.printable import printable
from cotenant.schema.events import ENUMS
from cotenant.schema.layouts import FACT

_KINDS: Final = ENUMS["fact_kind"]

Gone = Callable[[Process, str, int], None]  # A process of a tenant ended at a time, UTC.


class Facts:
    """Calls the handler of each kind of fact."""

    def __init__(
        self, ledger: Ledger, names: KernelNames, communicators: Communicators, clock: WallClock
    ) -> None:
        self._ledger = ledger
        self._names = names
        self._communicators = communicators
        self._clock = clock
        self._when_gone: list[Gone] = [lambda process, whose, _: communicators.gone(process, whose)]
        self._by_kind: dict[str, Callable[[Any, bytes], None]] = {
            "NAME": self._name,
            "ALIAS": self._alias,
            "CGROUP_BORN": self._born,
            "CGROUP_GONE": self._gone,
            "CGROUP_MOVED": self._moved,
            "PROCESS_EXEC": self._exec,
            "PROCESS_GONE": self._ended,
            "COMMUNICATOR": self._communicator,
            "COMM_SPLIT": self._split,
            "COMM_RANK": self._rank,
            "COMM_COUNT": self._rank,
        }

    def add(
        self,
        handlers: dict[str, Callable[[Any, bytes], None]],
        gone: Gone,
    ) -> None:
        """Add handlers of further kinds of facts, and one for processes that ended."""
        self._by_kind |= handlers
        self._when_gone.append(gone)

    def take(self, records: Iterable[bytes]) -> None:
        """Learn from these records, in their order."""
        for record in records:
            fact = np.frombuffer(record, FACT, count=1)[0]
            text = record[FACT.itemsize : FACT.itemsize + int(fact["size"])]
            handle = self._by_kind.get(_KINDS.get(int(fact["kind"]), ""))
            if handle is not None:
                handle(fact, text)

    def _follow(self, fact: Any) -> Process:
        """The process of a fact; whose it is, is known from now on."""
        process = Process.of(fact)
        if process not in self._names:
            self._names.follow(process, self._tenant(fact))
        return process

    def _tenant(self, fact: Any) -> str:
        return self._ledger.outermost(int(fact["cgroup_id"]), int(fact["cgroup_v1_id"]))

    def _name(self, fact: Any, text: bytes) -> None:
        self._names.learn(
            self._follow(fact),
            int(fact["handle"]),
            text.decode("utf-8", "replace"),
            int(fact["timestamp_ns"]),
            int(fact["other"]),
        )

    def _alias(self, fact: Any, _: bytes) -> None:
        self._names.alias(
            self._follow(fact), int(fact["handle"]), int(fact["other"]), int(fact["timestamp_ns"])
        )

    def _exec(self, fact: Any, _: bytes) -> None:
        self._names.exec(Process.of(fact), int(fact["timestamp_ns"]))

    def _ended(self, fact: Any, _: bytes) -> None:
        for gone in self._when_gone:
            gone(Process.of(fact), self._tenant(fact), self._utc(fact))

    def _communicator(self, fact: Any, text: bytes) -> None:
        self._communicators.made(
            self._follow(fact),
            int(fact["handle"]),
            Communicator(
                _signed(fact["other"]), int(fact["rank"]), int(fact["nranks"]), _name(text)
            ),
        )

    def _split(self, fact: Any, text: bytes) -> None:
        self._communicators.split(
            self._follow(fact),
            int(fact["handle"]),
            int(fact["other"]),
            int(fact["rank"]),
            _name(text),
        )

    def _rank(self, fact: Any, _: bytes) -> None:
        asked = _KINDS[int(fact["kind"])]
        self._communicators.learned(
            Process.of(fact),
            int(fact["handle"]),
            rank=int(fact["rank"]) if asked == "COMM_RANK" else None,
            nranks=int(fact["nranks"]) if asked == "COMM_COUNT" else None,
        )

    def _born(self, fact: Any, text: bytes) -> None:
        self._ledger.born(
            int(fact["other"]),
            int(fact["handle"]),
            path_text(text),
            self._utc(fact),
            maker_uid=int(fact["rank"]) % (1 << 32),
        )

    def _gone(self, fact: Any, _: bytes) -> None:
        self._ledger.removed(int(fact["other"]), int(fact["handle"]), self._utc(fact))

    def _moved(self, fact: Any, text: bytes) -> None:
        self._ledger.renamed(int(fact["other"]), int(fact["handle"]), path_text(text))

    def _utc(self, fact: Any) -> int:
        return int(fact["timestamp_ns"]) + self._clock.offset_ns


def _signed(value: Any) -> int:
    """63 bits of a hash: SQL engines have no unsigned numbers."""
    return int(value) & (1 << 63) - 1


def _name(text: bytes) -> str | None:
    return printable(text.decode("utf-8", "replace")) or None
