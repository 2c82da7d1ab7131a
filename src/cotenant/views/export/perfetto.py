"""A Perfetto trace: a process per tenant, a track per thread, stream and disk.

Slices on one track must nest. Where they cross, as requests to a disk do, the later goes to a
further track of the same name.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from cotenant.errors import CotenantError
from cotenant.printable import escaped
from cotenant.query.engine.session import Session
from cotenant.query.screens.trace import expected, slices
from cotenant.views.export.part import written
from cotenant.views.export.progress import ExportProgress
from cotenant.views.text import plain

_SEQUENCE: Final = 1
_BOOTTIME, _REALTIME = 6, 1  # Clocks of the trace format.
_COMMON: Final = ("tenant", "track", "name", "start_ns", "duration_ns", "value")
_CLEARED, _NEEDS = 1, 2  # Flags: the names begin anew; they are needed.


def _protos() -> Any:
    try:
        from perfetto.trace_builder import proto_builder
    except ImportError as error:
        raise CotenantError(
            "a Perfetto trace needs the package perfetto; run pip install 'cotenant[export]'"
        ) from error
    return proto_builder


class _TrackLanes:
    """Which slices of one track are still open, lane by lane."""

    def __init__(self) -> None:
        self._open: list[list[int]] = []

    def place(self, start: int, end: int) -> int:
        """The first lane in which the slice nests."""
        for number, ends in enumerate(self._open):
            while ends and ends[-1] <= start:
                ends.pop()
            if not ends or end <= ends[-1]:
                ends.append(end)
                return number
        self._open.append([end])
        return len(self._open) - 1


class Trace:
    """Writes packets; remembers the tracks and names it has already told of."""

    def __init__(self, out: Any, text: Callable[[str], str]) -> None:
        protos = _protos()
        self._text = text  # How a tenant's text is written.
        self._builder = protos.StreamingTraceProtoBuilder(out)
        events = protos.TracePacket.DESCRIPTOR.fields_by_name["track_event"].message_type
        kinds = events.enum_types_by_name["Type"].values_by_name
        self._begin, self._end = kinds["TYPE_SLICE_BEGIN"].number, kinds["TYPE_SLICE_END"].number
        self._instant, self._counter = kinds["TYPE_INSTANT"].number, kinds["TYPE_COUNTER"].number
        self._tracks: dict[tuple[str, ...], int] = {}
        self._lanes: dict[tuple[str, str], _TrackLanes] = {}
        self._names: dict[str, int] = {}
        self._notes: dict[str, int] = {}
        self._first = True

    def _packet(self, timestamp: int | None = None) -> Any:
        packet = self._builder.create_packet()
        packet.trusted_packet_sequence_id = _SEQUENCE
        packet.sequence_flags = _NEEDS | (_CLEARED if self._first else 0)
        self._first = False
        if timestamp is not None:
            packet.timestamp = timestamp
        return packet

    def clock(self, start_ns: int) -> None:
        """Say that times are UTC."""
        packet = self._packet()
        for clock in (_BOOTTIME, _REALTIME):
            told = packet.clock_snapshot.clocks.add()
            told.clock_id, told.timestamp = clock, start_ns
        self._builder.write_packet(packet)

    def _tenant(self, tenant: str) -> int:
        key = (tenant,)
        if key not in self._tracks:
            self._tracks[key] = len(self._tracks) + 1
            packet = self._packet()
            packet.track_descriptor.uuid = self._tracks[key]
            packet.track_descriptor.process.pid = self._tracks[key]
            packet.track_descriptor.process.process_name = self._text(tenant)
            self._builder.write_packet(packet)
        return self._tracks[key]

    def _track(self, tenant: str, name: str, lane: int = 0, *, counter: bool = False) -> int:
        key = (tenant, name, str(lane))
        if key not in self._tracks:
            parent = self._tenant(tenant)
            self._tracks[key] = len(self._tracks) + 1
            packet = self._packet()
            packet.track_descriptor.uuid = self._tracks[key]
            packet.track_descriptor.parent_uuid = parent
            packet.track_descriptor.name = self._text(name)
            if counter:
                packet.track_descriptor.counter.SetInParent()
            self._builder.write_packet(packet)
        return self._tracks[key]

    def _name(self, packet: Any, name: str) -> int:
        if name not in self._names:
            self._names[name] = len(self._names) + 1
            told = packet.interned_data.event_names.add()
            told.iid, told.name = self._names[name], self._text(name)
        return self._names[name]

    def _say(self, packet: Any, more: dict[str, Any]) -> None:
        for name, value in more.items():
            if value is None:
                continue
            if name not in self._notes:
                self._notes[name] = len(self._notes) + 1
                told = packet.interned_data.debug_annotation_names.add()
                told.iid, told.name = self._notes[name], name
            note = packet.track_event.debug_annotations.add()
            note.name_iid = self._notes[name]
            if isinstance(value, bool):
                note.bool_value = value
            elif isinstance(value, int):
                note.int_value = value
            else:
                note.string_value = self._text(str(plain(value)))

    def level(self, tenant: str, track: str, at: int, value: int) -> None:
        """A value over time."""
        uuid = self._track(tenant, track, counter=True)
        packet = self._packet(at)
        packet.track_event.type = self._counter
        packet.track_event.track_uuid = uuid
        packet.track_event.counter_value = value
        self._builder.write_packet(packet)

    def slice(self, row: dict[str, Any]) -> None:
        """A slice, or a moment, of a tenant."""
        start, took = row["start_ns"], row["duration_ns"]
        where = (row["tenant"], row["track"])
        end = start + (took or 0)
        lane = self._lanes.setdefault(where, _TrackLanes()).place(start, end)
        uuid = self._track(*where, lane)
        packet = self._packet(start)
        packet.track_event.type = self._begin if took is not None else self._instant
        packet.track_event.track_uuid = uuid
        packet.track_event.name_iid = self._name(packet, row["name"])
        self._say(packet, {name: row[name] for name in row if name not in _COMMON})
        self._builder.write_packet(packet)
        if took is not None:
            packet = self._packet(end)
            packet.track_event.type = self._end
            packet.track_event.track_uuid = uuid
            self._builder.write_packet(packet)


def _rows(batch: Any) -> Iterator[dict[str, Any]]:
    names = batch.schema.names
    columns = [column.to_pylist() for column in batch.columns]
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def write_trace(
    session: Session, output: Path, progress: ExportProgress, *, raw: bool = False
) -> int:
    """All slices of the session to one file, whole or not at all."""
    starts = [s.min_ns for s in session.segments if s.min_ns is not None]
    total = expected(session)
    with written(output) as out:
        trace = Trace(out, str if raw else escaped)
        trace.clock(min(starts, default=0))
        for batch in slices(session):
            for row in _rows(batch):
                if row["value"] is not None:
                    trace.level(row["tenant"], row["track"], row["start_ns"], row["value"])
                else:
                    trace.slice(row)
            progress.add(batch.num_rows, "slices", total)
    return progress.rows
