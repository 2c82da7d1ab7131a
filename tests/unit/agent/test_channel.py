"""Messages between the two processes: none of them is too long to survive."""

import os
import socket
import threading
import time

import pytest

from cotenant.agent.channel import Channel, Closed, MessageTooLarge
from cotenant.agent.protocol.codec import encode
from cotenant.agent.protocol.link import helper_link, recorder_link
from cotenant.agent.protocol.reports import Failed, Inspected, MapsShared, Trouble
from cotenant.agent.protocol.requests import Inspect

LIMIT = 1 << 18
SMALL = Inspected(7)


@pytest.fixture
def ends():
    """The helper's end and the recorder's."""
    pair = Channel.pair()
    yield helper_link(pair[0]), recorder_link(pair[1])
    for end in pair:
        end.close()


@pytest.mark.parametrize("size", [LIMIT, 1 << 20, 1 << 23])
def test_a_message_that_is_too_large_is_told_and_the_next_one_comes(ends, size: int) -> None:
    here, there = ends
    with pytest.raises(MessageTooLarge, match="a message of type Failed has"):
        here.send(Failed("x" * size, 1))
    here.send(SMALL)
    assert there.receive(0) == (SMALL, [])
    assert there.receive(0) is None


def test_a_message_that_is_cut_is_trouble_and_the_next_one_comes() -> None:
    raw, end = Channel.pair()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * LIMIT)
    there = recorder_link(end)
    with open("/dev/null") as null, raw, end:
        open_before = len(os.listdir("/proc/self/fd"))
        socket.send_fds(raw, [encode(Failed("x" * LIMIT, 1))], [null.fileno()])
        raw.send(encode(SMALL))
        text = "a message was longer than any may be"
        assert there.receive(0) == (Trouble("channel", text), [])
        assert there.receive(0) == (SMALL, [])
        assert len(os.listdir("/proc/self/fd")) == open_before
        raw.close()
        with pytest.raises(Closed):
            there.receive(0)


def test_what_others_send_waits_for_room_while_somebody_listens(ends) -> None:
    here, there = ends
    big = Trouble("channel", "x" * 60_000)
    sent: list[int] = []

    def send() -> None:
        for number in range(101):
            here.send(big)
            sent.append(number)

    thread = threading.Thread(target=send)
    thread.start()
    received = 0
    deadline = time.monotonic() + 30
    while received < 101 and time.monotonic() < deadline:
        assert here.receive(0) is None
        received += there.receive(0.01) is not None
    thread.join(timeout=30)
    assert (received, len(sent)) == (101, 101)


def test_what_is_no_message_is_trouble_and_the_next_one_comes() -> None:
    raw, end = Channel.pair()
    there = recorder_link(end)
    with raw, end:
        raw.send(encode(Inspect(7)))  # A request is no report.
        raw.send(encode(SMALL))
        text = "a message is of no known kind: 'Inspect'"
        assert there.receive(0) == (Trouble("channel", text), [])
        assert there.receive(0) == (SMALL, [])


def test_descriptors_come_with_the_maps_and_with_nothing_else(ends) -> None:
    here, there = ends
    open_before = len(os.listdir("/proc/self/fd"))
    with open("/dev/null") as null:
        maps = MapsShared(("events",), "multi", 1700.0, 0.0)
        here.send(maps, [null.fileno()])
        here.send(SMALL, [null.fileno()] * 3)
        there.send(Inspect(1), [null.fileno()] * 64)
        told, (fd,) = there.receive(0)
        assert told == maps
        os.close(fd)
        assert there.receive(0) == (SMALL, [])
        assert here.receive(0) == (Inspect(1), [])
    assert len(os.listdir("/proc/self/fd")) == open_before
