"""Output fits the screen; in a pipe every value is whole."""

import os
import pty
import struct
import subprocess
import sys
from fcntl import ioctl
from termios import TIOCSWINSZ

import pytest

from cotenant.views import units
from cotenant.views.tables import Layout
from cotenant.views.text import cell
from tests.views.conftest import KERNEL


def on_terminal(store, columns, *words):
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
    command = [sys.executable, "-m", "cotenant", *words, "--store", str(store)]
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL, env=environment):
        os.close(theirs)
        out = b""
        try:
            while part := os.read(ours, 1 << 16):
                out += part
        except OSError:
            pass  # The other end was closed.
    os.close(ours)
    return out.decode().replace("\r\n", "\n")


def test_a_terminal_decides_and_columns_may_say_otherwise(store):
    words = ("ask", "top_kernels")
    assert max(map(len, on_terminal(store, 60, *words).splitlines())) <= 60
    assert KERNEL in on_terminal(store, 60, *words, "--wide")
    command = [sys.executable, "-m", "cotenant", *words, "--store", str(store)]
    done = subprocess.run(
        command, env={**os.environ, "COLUMNS": "50"}, capture_output=True, text=True, check=True
    )
    assert max(map(len, done.stdout.splitlines())) <= 50


def test_a_pipe_gets_every_value_whole(store):
    environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
    command = [sys.executable, "-m", "cotenant", "sql", "FROM cuda_events", "--store", str(store)]
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert KERNEL in out.stdout
    assert "not fit" not in out.stdout


IO_DELAYS = {
    "tenant": ["4bce3920a2f6bd6e3a90cd7c1d1cfc8b"],
    "neighbour": ["c866ecdee5ac02d00a85980f6454a596"],
    "slowdown": [31.62],
    "delayed_ns": [1_608_802_604],
    "beside_ns": [3_232_211],
    "alone_ns": [102_226],
    "neighbour_bytes": [2_683_994_112],
    "requests_beside": [513],
    "requests_alone": [3_375],
    "device": ["vda"],
    "node": ["a-node-with-a-long-name"],
}


@pytest.mark.parametrize("width", [80, 72])
def test_disk_delays_show_their_numbers_on_the_narrowest_screen(width):
    lines = units.table(list(IO_DELAYS), list(IO_DELAYS.values()), Layout(width, way_out="--wide"))
    (row,) = [line for line in lines if line.startswith("4bce3920a2f6b")]
    assert all(number in row for number in ("31.620", "1.61 s", "3.23 ms", "102 us"))
    assert "more columns do not fit: --wide" in lines[-1]


def test_a_heading_that_cannot_be_broken_stands_above_its_values():
    names = ["victim", "aggressor", "why_it_is_so"]
    values = [["train"], ["noisy"], ["time slicing of a GPU"]]
    lines = units.table(names, values, Layout(30, way_out="--wide"))
    (rule,) = (n for n, line in enumerate(lines) if line.startswith("-"))
    assert lines[rule - 1].split()[:2] == ["victim", "aggressor"]


def test_a_small_number_takes_no_more_room_than_it_tells():
    assert [cell(p) for p in (0.000999000999, 0.05, 1e-12)] == ["0.000999", "0.050", "1e-12"]
