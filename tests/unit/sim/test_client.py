"""The client: every function it lists, an exact number of times."""

import json
import subprocess
from collections import Counter

import pytest

from cotenant import sim

CALLS = 7


@pytest.fixture
def client(tmp_path, device):
    """Run the client on lines of input; what it printed, and the truth log."""

    def run(*lines, runtime="13"):
        log = tmp_path / "truth.jsonl"
        log.unlink(missing_ok=True)
        done = subprocess.run(
            [str(sim.library_dir() / "client"), "--runtime", runtime, "-"],
            input="".join(f"{line}\n" for line in lines),
            env=sim.environment({**device, "COTENANT_SIM_LOG": str(log)}),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        made = [json.loads(line) for line in done.stdout.splitlines()]
        return made, [json.loads(line) for line in log.read_text().splitlines()]

    return run


def _symbols(runtime="13"):
    line = [str(sim.library_dir() / "client"), "--runtime", runtime, "--list"]
    listed = subprocess.run(line, capture_output=True, text=True, check=True)
    return [row["symbol"] for row in json.loads(listed.stdout)]


@pytest.mark.parametrize("runtime", ["12", "13"])
def test_every_listed_function_is_called_as_often_as_asked_and_succeeds(client, runtime):
    symbols = _symbols(runtime)
    made, _ = client(*(f"{symbol} {CALLS}" for symbol in symbols), runtime=runtime)
    assert Counter(call["symbol"] for call in made) == dict.fromkeys(symbols, CALLS)
    returns_pointer = {"__cudaRegisterFatBinary"}
    failed = {c["symbol"] for c in made if c["result"] != 0} - returns_pointer
    assert failed == set()


@pytest.mark.parametrize(
    ("symbol", "logged"),
    [
        ("cuMemcpyHtoDAsync_v2", {"bytes": "bytes", "stream": "stream", "pointer": "dst"}),
        ("cuMemcpy2DAsync_v2", {"bytes": "copy.bytes", "stream": "stream"}),
        ("cuMemcpy3D_v2", {"bytes": "copy.bytes", "direction": "copy.direction"}),
        ("cuMemcpyBatchAsync", {"bytes": "sizes.bytes", "stream": "stream"}),
        ("cuMemcpyBatchAsync_v2", {"bytes": "sizes.bytes", "stream": "stream"}),
        ("cuMemcpy3DBatchAsync_v2", {"bytes": "copies.bytes", "stream": "stream"}),
        ("cuMemcpyHtoAAsync_v2", {"bytes": "bytes", "stream": "stream"}),
        ("cuMemcpyPeerAsync", {"bytes": "bytes", "stream": "stream"}),
        ("cuMemAlloc_v2", {"bytes": "bytes", "pointer": "out"}),
        ("cuLaunchKernelEx", {"grid": "config.grid", "stream": "config.stream", "handle": "f"}),
        ("ncclReduce", {"count": "count", "datatype": "type", "root": "root", "comm": "comm"}),
        ("ncclSend", {"count": "count", "peer": "peer", "stream": "stream"}),
    ],
)
def test_the_arguments_printed_are_those_the_library_saw(client, symbol, logged):
    made, lines = client(f"{symbol} {CALLS}")
    seen = [line for line in lines if line["api"] == symbol and "outer" not in line]
    seen.sort(key=lambda line: line["t_begin"])

    def printed(call, path):
        value = call["args"]
        for step in path.split("."):
            value = value[step]
        return value

    expected = [{key: printed(call, path) for key, path in logged.items()} for call in made]
    assert [{key: line[key] for key in logged} for line in seen[-CALLS:]] == expected


def test_an_argument_can_be_given(client):
    made, lines = client("cuMemcpyHtoD_v2 3 bytes=12345")
    assert [call["args"]["bytes"] for call in made] == [12345] * 3
    copied = [line["bytes"] for line in lines if line["api"] == "cuMemcpyHtoD_v2"]
    assert copied == [12345] * 3


def test_a_wild_handle_is_an_error_and_not_a_crash(client):
    made, _ = client(
        "cuLaunchKernel 1 f=0x1234",
        "cuStreamSynchronize 1 stream=0x4242",
        "cuGraphLaunch 1 exec=0x7f0000000040",
        "cuEventQuery 1 event=64",
    )
    assert [call["result"] for call in made] == [400] * 4


def test_every_operation_the_driver_logs_can_be_called(client):
    """A probe row is tested by calling its symbol: none may be out of reach."""
    exported = subprocess.run(
        ["nm", "-D", "--defined-only", str(sim.library_dir() / "libcuda.so.1")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = {line.split()[2] for line in exported.splitlines() if " T " in line}
    lookups = (
        "Get", "CanAccess", "IsCapturing", "SetFlags", "Advise", "Attribute", "Occupancy",
        "TotalMem", "EnablePeer", "GraphUpload", "AddDependencies", "SetEnabled", "CaptureMode",
    )  # fmt: skip
    unlisted = names - set(_symbols())
    assert {name for name in unlisted if not any(word in name for word in lookups)} == set()
