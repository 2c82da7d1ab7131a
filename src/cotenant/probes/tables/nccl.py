"""NCCL: collectives, point to point, groups, and communicators from first to last.

The names are the same in libnccl, in libraries that carry it inside, and in RCCL. Each has a
twin ``pnccl...``, usually at the same address, where it is probed once.
"""

from typing import Any, Final

from cotenant.probes.function import CallFamily, Flag, Function, Library

_OP: Final = Flag.OPERATION


def _each(id: int, symbol: str, *more: str, **facts: Any) -> tuple[Function, ...]:
    """A function, its other forms, and the twin of each, numbered on from ``id``."""
    symbols = [name for form in (symbol, *more) for name in (f"nccl{form}", f"pnccl{form}")]
    return tuple(
        Function(id + index, Library.NCCL, name, family=CallFamily.NCCL, **facts)
        for index, name in enumerate(symbols)
    )


def _collectives() -> tuple[Function, ...]:
    data: dict[str, Any] = {"flags": _OP, "bytes": (3,), "datatype": 4}
    reduced: dict[str, Any] = {
        **data,
        "reduce_op": 5,
        "communicator": 6,
        "stream": 7,
        "stack": True,
    }
    rooted: dict[str, Any] = {**data, "root": 5, "communicator": 6, "stream": 7, "stack": True}
    spread: dict[str, Any] = {**data, "communicator": 5, "stream": 6}
    return (
        *_each(500, "AllReduce", "AllReduceConfig", op="AllReduce", **reduced),
        *_each(
            504, "Reduce", "ReduceConfig", op="Reduce", reduce_op=5, root=6, communicator=7,
            stream=8, stack=True, **data,
        ),
        *_each(508, "Broadcast", "BroadcastConfig", op="Broadcast", **rooted),
        *_each(512, "AllGather", "AllGatherConfig", op="AllGather", **spread),
        *_each(516, "ReduceScatter", "ReduceScatterConfig", op="ReduceScatter", **reduced),
        *_each(520, "AlltoAll", "AlltoAllConfig", op="AlltoAll", **spread),
        *_each(524, "Gather", "GatherConfig", op="Gather", **rooted),
        *_each(528, "Scatter", "ScatterConfig", op="Scatter", **rooted),
        *_each(
            532, "Bcast", op="Broadcast", flags=_OP, bytes=(2,), datatype=3, root=4,
            communicator=5, stream=6,
        ),
    )  # fmt: skip


def _point_to_point() -> tuple[Function, ...]:
    plain: dict[str, Any] = {"flags": _OP, "bytes": (2,), "datatype": 3, "peer": 4}
    return (
        *_each(540, "Send", op="Send", communicator=5, stream=6, **plain),
        *_each(542, "Recv", op="Recv", communicator=5, stream=6, **plain),
        *_each(544, "PutSignal", op="PutSignal", communicator=10, stream=11, stack=True, **plain),
        *_each(546, "Signal", op="Signal", flags=_OP, peer=1, communicator=5, stream=6),
        # Of as many peers as it is given.
        *_each(548, "WaitSignal", op="WaitSignal", flags=_OP, communicator=3, stream=4),
    )


def _groups() -> tuple[Function, ...]:
    return (
        *_each(550, "GroupStart", op="GroupStart"),
        *_each(552, "GroupEnd", op="GroupEnd", flags=_OP),
        # Ends the group and launches nothing.
        *_each(554, "GroupSimulateEnd", op="GroupEnd"),
    )


def _communicator(id: int, symbol: str, **facts: Any) -> tuple[Function, ...]:
    return _each(id, symbol, op=symbol, flags=Flag.ROW, **facts)


def _communicators() -> tuple[Function, ...]:
    made: dict[str, Any] = {"fact": "COMMUNICATOR", "out": 1}
    new: dict[str, Any] = {"fact": "COMM_SPLIT", "other": 1}
    asked: dict[str, Any] = {"communicator": 1, "out": 2}
    scalable: dict[str, Any] = {"text": 5, "text_out": True, "config": 6}
    return (
        # The unique id, 128 bytes by value, lies on the stack and takes no register.
        *_communicator(560, "CommInitRank", nranks=2, rank=3, text=7, **made),
        *_communicator(562, "CommInitRankConfig", nranks=2, rank=3, text=7, config=4, **made),
        *_communicator(564, "CommInitRankScalable", nranks=2, rank=3, **scalable, **made),
        *_communicator(566, "CommInitAll", nranks=2, **made),
        *_communicator(568, "CommSplit", rank=2, nranks=3, out=4, config=5, **new),
        *_communicator(570, "CommShrink", out=4, config=5, **new),
        *_communicator(572, "CommGrow", nranks=2, rank=4, out=5, config=6, **new),
        *_communicator(580, "CommDestroy", communicator=1),
        *_communicator(582, "CommFinalize", communicator=1),
        *_communicator(584, "CommAbort", communicator=1),
        *_communicator(586, "CommRevoke", communicator=1),
        *_communicator(574, "CommSuspend", communicator=1),
        *_communicator(576, "CommResume", communicator=1),
        *_communicator(594, "CommRegister", communicator=1),
        *_communicator(596, "CommDeregister", communicator=1),
        *_communicator(598, "CommWindowRegister", communicator=1),
        *_communicator(600, "CommWindowDeregister", communicator=1),
        *_communicator(602, "DevCommCreate", communicator=1),
        *_communicator(604, "DevCommDestroy", communicator=1),
        *_each(590, "CommUserRank", fact="COMM_RANK", **asked),
        *_each(592, "CommCount", fact="COMM_COUNT", **asked),
    )


FUNCTIONS: Final = (*_collectives(), *_point_to_point(), *_groups(), *_communicators())
