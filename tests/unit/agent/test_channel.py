"""Messages between the two processes: none of them is too long to survive."""

import json
import os
import socket
import threading
import time

import pytest

from cotenant.agent.channel import Channel, Closed, MessageTooLarge, slices
from cotenant.agent.recorder.session_row import SessionRow

LIMIT = 1 << 18
SMALL = {"type": "small"}


@pytest.fixture
def ends():
    pair = Channel.pair()
    yield tuple(Channel(end) for end in pair)
    for end in pair:
        end.close()


@pytest.mark.parametrize("size", [LIMIT, 1 << 20, 1 << 23])
def test_a_message_that_is_too_large_is_told_and_the_next_one_comes(ends, size: int) -> None:
    here, there = ends
    with pytest.raises(MessageTooLarge, match="a message of type large has"):
        here.send({"type": "large", "text": "x" * size})
    here.send(SMALL)
    assert there.receive(0) == (SMALL, [])
    assert there.receive(0) is None


def test_a_message_that_is_cut_is_trouble_and_the_next_one_comes() -> None:
    raw, end = Channel.pair()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * LIMIT)
    there = Channel(end)
    with open("/dev/null") as null, raw, end:
        open_before = len(os.listdir("/proc/self/fd"))
        socket.send_fds(raw, [json.dumps({"text": "x" * LIMIT}).encode()], [null.fileno()])
        raw.send(json.dumps(SMALL).encode())
        text = "a message was longer than any may be"
        cut = {"type": "trouble", "of": "channel", "text": text}
        assert there.receive(0) == (cut, [])
        assert there.receive(0) == (SMALL, [])
        assert len(os.listdir("/proc/self/fd")) == open_before
        raw.close()
        with pytest.raises(Closed):
            there.receive(0)


def test_what_others_send_waits_for_room_while_somebody_listens(ends) -> None:
    here, there = ends
    big = {"type": "big", "text": "x" * 60_000}
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


def test_lists_are_cut_by_the_bytes_of_what_is_in_them() -> None:
    items = ["\N{REPLACEMENT CHARACTER}" * 256] * 257
    parts = list(slices(items))
    assert [item for part in parts for item in part] == items
    assert max(len(json.dumps(part)) for part in parts) < 1 << 17
    assert [len(part) for part in slices(["x" * 200_000, 1, 2, 3])] == [1, 3]
    assert list(slices([])) == []


def test_what_the_helper_calls_trouble_is_noted_in_the_session() -> None:
    row = SessionRow(node="n", boot_id="b", hierarchy="v2", layers="both")
    row.hear([{"type": "trouble", "of": "channel", "text": "MessageTooLarge: a message"}])
    row.started(now_ns=7, offset_ns=3, method="multi")
    notes = json.loads(row.table(3).column("notes")[0].as_py())
    assert notes == {"trouble_channel": "MessageTooLarge: a message"}
