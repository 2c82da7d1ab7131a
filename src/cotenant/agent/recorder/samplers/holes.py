"""Times in which something went unseen: rows of ``losses`` without counts.

A hole is told when it is over; one that lasts, once a second, as far as it has come. Whose it is
may be told by the path of a cgroup, which the ledger hears of at about the same time, or not at
all: then it may be anybody's.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from cotenant.identity.ledger import Ledger
from cotenant.identity.tenant import KERNEL
from cotenant.schema.dimensions import LOSSES
from cotenant.schema.holes import Reason
from cotenant.store.segment import columns_of

# A path that the ledger does not know after this long is nobody's.
_PATIENCE_NS: Final = 5_000_000_000
_OPEN_MAX: Final = 4096
_ROWS_MAX: Final = 16  # Of one tenant, family and reason in a second; more are told as one.
_WARNED_MAX: Final = 256
_NO_COUNTS: Final = ("seen", "stored", "shed", "lost", "queued")

Whose = str | int | None  # A cgroup's path or the kernel, a cgroup_id, or nobody knows.


class _HoleKind(NamedTuple):
    reason: Reason
    families: tuple[str, ...]
    whose: Whose


class _Key(NamedTuple):
    reason: str
    family: str
    cgroup_id: int


@dataclass(slots=True)
class _Piece:
    from_ns: int
    to_ns: int
    unseen: int | None


class Holes:
    """What went unseen since the last sample, and what still does."""

    table: Final = "losses"

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.warnings: list[str] = []
        self._warned: set[_HoleKind] = set()
        self._waiting: list[tuple[_HoleKind, _Piece]] = []
        self._open: dict[_HoleKind, int] = {}  # Since when, as far as it was not told.

    def add(
        self,
        reason: Reason,
        families: Iterable[str],
        whose: Whose,
        from_ns: int,
        to_ns: int,
        unseen: int | None = None,
    ) -> None:
        """Something of these families went unseen between these times, UTC."""
        kind = _HoleKind(reason, tuple(families), whose)
        self._waiting.append((kind, _Piece(from_ns, max(from_ns, to_ns), unseen)))

    def open(self, reason: Reason, families: Iterable[str], whose: Whose, since_ns: int) -> None:
        """Something goes unseen from now on, until told otherwise or the tenant is gone."""
        kind = _HoleKind(reason, tuple(families), whose)
        if kind in self._open:
            return
        if len(self._open) >= _OPEN_MAX:  # Of one tenant too many: it is told without its name.
            kind = kind._replace(whose=None)
        self._open.setdefault(kind, since_ns)

    def close(self, reason: Reason, families: Iterable[str], whose: Whose, at_ns: int) -> None:
        """It is seen again."""
        kind = _HoleKind(reason, tuple(families), whose)
        since_ns = self._open.pop(kind, None)
        if since_ns is not None:
            self._waiting.append((kind, _Piece(since_ns, max(since_ns, at_ns), None)))

    def sample(self, now_ns: int) -> Any | None:
        """Rows for what came since the last sample; None if nothing did."""
        self._go_on(now_ns)
        pieces: dict[_Key, list[_Piece]] = {}
        waiting, self._waiting = self._waiting, []
        for kind, piece in waiting:
            owner = self._owner(kind.whose)
            if owner is None and now_ns - piece.to_ns < _PATIENCE_NS:
                self._waiting.append((kind, piece))
                continue
            self._warn(kind, piece)
            for number, family in enumerate(kind.families):
                key = _Key(kind.reason.name, family, owner or self._ledger.unknown_id)
                # How much it was is told once.
                told = replace(piece, unseen=None) if number else piece
                pieces.setdefault(key, []).append(told)
        rows = [(key, piece) for key, found in pieces.items() for piece in _merged(found)]
        return _table(now_ns, rows) if rows else None

    def _go_on(self, now_ns: int) -> None:
        """What is still open has come so far; a tenant that is gone misses nothing more."""
        for kind, since_ns in list(self._open.items()):
            row = self._row(kind.whose)
            if row and row["removed_ns"] is not None:
                self.close(*kind, row["removed_ns"])
                continue
            self._waiting.append((kind, _Piece(min(since_ns, now_ns), now_ns, None)))
            self._open[kind] = now_ns

    def _owner(self, whose: Whose) -> int | None:
        """The stored id; None if the ledger does not know the path yet."""
        if not isinstance(whose, str):
            return self._ledger.unknown_id if whose is None else whose
        if whose == KERNEL:
            return self._ledger.kernel_id
        row = self._row(whose)
        return row["cgroup_id"] if row else None

    def _row(self, whose: Whose) -> dict[str, Any] | None:
        """Its row of ``containers``, if it is told by a path that is known."""
        return self._ledger.at_path(whose) if isinstance(whose, str) else None

    def _row_of(self, whose: Whose) -> dict[str, Any] | None:
        """The same of one that is told by its stored id."""
        return next((row for row in self._ledger.rows() if row["cgroup_id"] == whose), None)

    def _warn(self, kind: _HoleKind, piece: _Piece) -> None:
        """Say so to whoever records, once for each tenant, reason and what is missing."""
        if kind in self._warned or len(self._warned) >= _WARNED_MAX:
            return
        self._warned.add(kind)
        row = self._row(kind.whose) or self._row_of(kind.whose)
        tenant = row["tenant"] if row else kind.whose or "some tenant"
        what = kind.reason.what or f"{' and '.join(kind.families)} events"
        if kind.reason.op is not None:
            self.warnings.append(f"{what} of {tenant} are not recorded: {kind.reason.name}")
            return
        size = f" for {(piece.to_ns - piece.from_ns) / 1e9:.3f} s"
        self.warnings.append(f"{what} of {tenant} missing{size}: {kind.reason.name}")


def _merged(pieces: list[_Piece]) -> list[_Piece]:
    """Without overlaps; if there are too many, one from the first to the last."""
    pieces.sort(key=lambda piece: piece.from_ns)
    found: list[_Piece] = []
    for piece in pieces:
        if found and (piece.from_ns <= found[-1].to_ns or len(found) == _ROWS_MAX):
            last = found[-1]
            last.to_ns = max(last.to_ns, piece.to_ns)
            if piece.unseen is not None:
                last.unseen = (last.unseen or 0) + piece.unseen
        else:
            found.append(piece)
    return found


def _table(now_ns: int, rows: list[tuple[_Key, _Piece]]) -> Any:
    zeros = [0] * len(rows)
    return columns_of(
        LOSSES,
        {
            "timestamp_ns": [now_ns] * len(rows),
            "family": [key.family for key, _ in rows],
            "cgroup_id": [key.cgroup_id for key, _ in rows],
            **dict.fromkeys(_NO_COUNTS, zeros),
            "reason": [key.reason for key, _ in rows],
            "from_ns": [piece.from_ns for _, piece in rows],
            "to_ns": [piece.to_ns for _, piece in rows],
            "unseen": [piece.unseen for _, piece in rows],
        },
    )
