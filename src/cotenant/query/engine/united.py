"""The standing of an answer that several sessions gave, each of other nodes."""

from collections.abc import Iterable, Sequence

from cotenant.query.engine.answer import Hole, Interval, Loss, Standing
from cotenant.query.engine.blindness import DOWN, SHOWN, in_order


def united(standings: Sequence[Standing], sql: str) -> Standing:
    """As that of one session over all their nodes."""
    intervals = [s.interval for s in standings if s.interval is not None]
    return Standing(
        sql=sql,
        interval=_around(intervals) if intervals else None,
        losses=_losses(loss for s in standings for loss in s.losses),
        missing_segments=sum(s.missing_segments for s in standings),
        unrecorded=tuple(dict.fromkeys(text for s in standings for text in s.unrecorded)),
        holes=_holes([hole for s in standings for hole in s.holes]),
        left_behind=tuple(sorted({table for s in standings for table in s.left_behind})),
    )


def _around(intervals: Sequence[Interval]) -> Interval:
    return Interval(min(i.start_ns for i in intervals), max(i.end_ns for i in intervals))


def _losses(losses: Iterable[Loss]) -> tuple[Loss, ...]:
    found: dict[str, Loss] = {}
    for loss in losses:
        sums = found.get(loss.family, Loss(loss.family, 0, 0, 0))
        found[loss.family] = Loss(
            loss.family, sums.seen + loss.seen, sums.lost + loss.lost, sums.shed + loss.shed
        )
    return tuple(found[family] for family in sorted(found))


def _holes(holes: Sequence[Hole]) -> tuple[Hole, ...]:
    """Those of the same reason and families are one; times without a recorder stay apart."""
    alike: dict[tuple[str, tuple[str, ...]], list[Hole]] = {}
    for hole in holes:
        if hole.reason != DOWN:
            alike.setdefault((hole.reason, hole.families), []).append(hole)
    down = [hole for hole in holes if hole.reason == DOWN]
    return in_order([_hole(same) for same in alike.values()], down)


def _hole(holes: Sequence[Hole]) -> Hole:
    unseen = [hole.unseen for hole in holes if hole.unseen is not None]
    return Hole(
        reason=holes[0].reason,
        families=holes[0].families,
        tenants=tuple(sorted({tenant for hole in holes for tenant in hole.tenants})[:SHOWN]),
        interval=_around([hole.interval for hole in holes]),
        blind_ns=max(hole.blind_ns for hole in holes),
        unseen=sum(unseen) if unseen else None,
    )
