"""Reads a Perfetto trace from its bytes alone: protobuf's wire format and the numbers of fields."""

from dataclasses import dataclass, field

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """``{number: [values]}``; a message or a text is bytes."""
    found, at = {}, 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
        elif kind == 2:
            length, at = _varint(data, at)
            value, at = data[at : at + length], at + length
        else:
            width = {1: 8, 5: 4}[kind]
            value, at = data[at : at + width], at + width
        found.setdefault(key >> 3, []).append(value)
    return found


@dataclass
class Reading:
    """What a trace shows: per tenant and track its slices, moments and levels."""

    slices: list = field(default_factory=list)  # (tenant, track, name, start, end)
    moments: list = field(default_factory=list)
    levels: list = field(default_factory=list)
    notes: dict = field(default_factory=dict)


def read(data):
    """The trace, played in the order of time as a viewer does."""
    packets = [fields(packet) for packet in fields(data)[1]]
    names, tracks, tenants, events = {}, {}, {}, []
    for packet in packets:
        for interned in packet.get(12, []):
            for entry in fields(interned).get(2, []):
                entry = fields(entry)
                names[entry[1][0]] = entry[2][0].decode()
        for descriptor in packet.get(60, []):
            descriptor = fields(descriptor)
            if 3 in descriptor:
                tenants[descriptor[1][0]] = fields(descriptor[3][0])[6][0].decode()
            else:
                tracks[descriptor[1][0]] = (descriptor[5][0], descriptor[2][0].decode())
        for event in packet.get(11, []):
            events.append((packet[8][0], fields(event)))
    reading, open_slices = Reading(), {}
    for at, event in sorted(events, key=lambda pair: pair[0]):
        parent, track = tracks[event[11][0]]
        where, kind = (tenants[parent], track), event[9][0]
        stack = open_slices.setdefault(event[11][0], [])
        if kind == BEGIN:
            stack.append((names[event[10][0]], at))
        elif kind == END:
            name, start = stack.pop()
            reading.slices.append((*where, name, start, at))
        elif kind == INSTANT:
            reading.moments.append((*where, names[event[10][0]], at))
        elif kind == COUNTER:
            reading.levels.append((*where, at, event[30][0]))
    assert not any(open_slices.values())
    return reading
