"""Open questions for names, each asked at once and then with a growing backoff.

Pure bookkeeping with the caller's clock; nothing here waits. A runtime may know its
container only a moment after the cgroup was made, and a container may be gone before it
is asked for, so every question is tried several times and given up in the end.
"""

import heapq
from collections import Counter
from dataclasses import dataclass
from typing import Final

from cotenant.identity.path.model import Identity

BACKOFF_NS: Final = tuple(
    int(seconds * 1e9) for seconds in (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)
)
SIZE_MAX: Final = 8192


@dataclass(frozen=True, slots=True)
class NameQuestion:
    """A cgroup whose name is to be asked for; ``key`` is the identity's subject path."""

    key: str
    identity: Identity
    path: str


@dataclass(slots=True)
class _Entry:
    question: NameQuestion
    due_ns: int
    attempts: int = 0
    asked: bool = False


class Backlog:
    """Open questions, each with the time at which to ask it next."""

    def __init__(self, size_max: int = SIZE_MAX) -> None:
        self._entries: dict[str, _Entry] = {}
        self._due: list[tuple[int, int, str]] = []
        self._order = 0
        self._size_max = size_max
        self.dropped = 0  # Questions that were pushed out by newer ones.
        self.given_up = 0  # Questions that no source answered.

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, question: NameQuestion, now_ns: int) -> None:
        """Open a question, due at once; one that is open already stays as it is."""
        if question.key in self._entries:
            return
        if len(self._entries) >= self._size_max:
            self._drop_one()
        self._push(_Entry(question, now_ns))

    def _drop_one(self) -> None:
        """Of whoever has most, the oldest: it had its chance, and the newest may still run."""
        owners = Counter(entry.question.identity.owner_path for entry in self._entries.values())
        most = owners.most_common(1)[0][0]
        for key, entry in self._entries.items():
            if entry.question.identity.owner_path == most:
                del self._entries[key]
                break
        self.dropped += 1

    def due(self, now_ns: int, limit: int = 64) -> list[NameQuestion]:
        """The questions to ask now, at most ``limit``; each is out until it is settled."""
        questions: list[NameQuestion] = []
        while self._due and len(questions) < limit and self._due[0][0] <= now_ns:
            due_ns, _, key = heapq.heappop(self._due)
            entry = self._entries.get(key)
            if entry is not None and not entry.asked and entry.due_ns == due_ns:
                entry.asked = True
                questions.append(entry.question)
        return questions

    def next_ns(self) -> int | None:
        """When the next question falls due; None if nothing is waiting."""
        while self._due:
            due_ns, _, key = self._due[0]
            entry = self._entries.get(key)
            if entry is not None and not entry.asked and entry.due_ns == due_ns:
                return due_ns
            heapq.heappop(self._due)
        return None

    def settle(self, key: str, *, complete: bool, now_ns: int) -> None:
        """An answer came: the question is closed, or asked again later."""
        entry = self._entries.get(key)
        if entry is None:
            return
        if complete or entry.attempts >= len(BACKOFF_NS):
            self.given_up += not complete
            del self._entries[key]
            return
        entry.due_ns = now_ns + BACKOFF_NS[entry.attempts]
        entry.attempts += 1
        entry.asked = False
        self._push(entry)

    def _push(self, entry: _Entry) -> None:
        self._entries[entry.question.key] = entry
        self._order += 1
        # Newest first among equals: a short-lived container cannot wait for its turn.
        heapq.heappush(self._due, (entry.due_ns, -self._order, entry.question.key))
