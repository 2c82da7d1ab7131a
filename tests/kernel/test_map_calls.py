"""Maps that the helper reads and changes for a recorder that may not, as before Linux 5.19."""

import errno
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant.agent.helper.map_server import MapServer
from cotenant.agent.map_calls import CALL, MapCall
from cotenant.agent.recorder.map_client import AskedMap, MapClient
from cotenant.probes.attach import Method
from cotenant.probes.kernel_maps import OpenMap
from cotenant.probes.programs import Programs, Sizes, load_programs
from cotenant.probes.tables import FUNCTIONS
from cotenant.schema.constants import MAPS
from tests.kernel.conftest import SIM, Cgroup, Recording, record, sim_environment, truth
from tests.kernel.test_privileges import capabilities, status

SMALL = Sizes(events_bytes=4096, facts_bytes=4096)
NAMES = ("events", "freed", "counters", "resting", "totals")

# A kernel that lets nobody without CAP_BPF read a map, as far as the recorder can tell.
OLDER = """
import sys
from cotenant.agent.recorder import map_client
map_client.works_with = lambda capabilities, attempt: False
from cotenant.start import main
sys.exit(main())
"""


@pytest.fixture(scope="module")
def loaded() -> Iterator[Programs]:
    programs = load_programs(Method.PAIR, FUNCTIONS, SMALL, {})
    yield programs
    programs.close()


@pytest.fixture
def client(loaded: Programs) -> Iterator[MapClient]:
    server = MapServer({name: loaded.maps[name] for name in NAMES})
    with socket.socket(fileno=os.dup(server.theirs)) as link:
        server.start()
        yield MapClient(link)
    server.wait()


def test_what_is_asked_for_is_what_the_kernel_has(loaded: Programs, client: MapClient) -> None:
    def both(name: str) -> tuple[OpenMap, AskedMap]:
        fd = loaded.maps[name]
        return OpenMap(name, fd), AskedMap(client, NAMES.index(name), fd)

    ours, asked = both("resting")
    keys = [number.to_bytes(MAPS["resting"][0], "little") for number in range(1, 4)]
    for key in keys:
        asked.update(key, key)
    assert ours.items() == asked.items()
    assert {ours.lookup(key) for key in keys} == {asked.lookup(key) for key in keys} == set(keys)
    asked.delete(keys[0])
    asked.delete(keys[0])
    assert ours.lookup(keys[0]) is None
    assert asked.lookup(keys[0]) is None
    assert len(asked.items()[0]) == 2 * len(keys[0])
    ours, asked = both("counters")
    assert ours.lookup(bytes(4)) == asked.lookup(bytes(4))


@pytest.mark.parametrize(
    ("which", "name", "key_bytes", "value_bytes"),
    [
        (MapCall.LOOKUP, "resting", 1, 0),
        (MapCall.LOOKUP, "resting", 0, 0),
        (MapCall.LOOKUP, "events", 4, 0),
        (MapCall.UPDATE, "resting", 8, 7),
        (MapCall.UPDATE, "resting", 8, 65535),
        (MapCall.UPDATE, "totals", *MAPS["totals"]),  # The kernel would read one for each CPU.
        (MapCall.DELETE, "resting", 65535, 0),
        (MapCall.ITEMS, "events", 0, 0),
        (MapCall.ITEMS, "resting", 8, 0),
        (MapCall.READ, "resting", 0, 0),
        (99, "resting", 8, 8),
    ],
)
def test_a_call_that_does_not_fit_its_map_is_refused(
    which: int, name: str, key_bytes: int, value_bytes: int, client: MapClient
) -> None:
    link = client._link
    number = NAMES.index(name)
    link.sendall(CALL.pack(which, number, key_bytes, value_bytes) + bytes(key_bytes + value_bytes))
    assert int.from_bytes(link.recv(20)[:4], "little") == errno.EINVAL
    assert AskedMap(client, NAMES.index("counters"), -1).lookup(bytes(4)) is not None


def test_a_map_that_there_is_not_is_refused(client: MapClient) -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        client.call(MapCall.ITEMS, len(NAMES))


def test_a_recording_by_asked_maps_is_exact_and_its_recorder_has_no_capability(
    cgroup: Cgroup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.kernel.conftest.COTENANT", [sys.executable, "-c", OLDER])
    log = tmp_path / "truth"
    with record(tmp_path / "store", "--quiet") as recording:
        words = [SIM / "workload", "mix", "--api", "driver", "--steps", "211"]
        client = cgroup.popen(words, env=sim_environment(log))
        client.communicate(timeout=60)
        assert capabilities(status(recording.process.pid)) == set()
    _compare(recording, log)


def _compare(recording: Recording, log: Path) -> None:
    launches = sum(line.get("api") == "cuLaunchKernel" for line in truth(log))
    (found,) = recording.sql(
        "select (select count(*) from cuda_events where api = 'cuLaunchKernel') as n_rows, "
        "(select sum(count)::bigint from totals where function = 'cuLaunchKernel') as n_totals, "
        "(select sum(seen) - sum(stored) from losses where family = 'cuda')::bigint as missing"
    )
    assert found == {"n_rows": launches, "n_totals": launches, "missing": 0}
    assert launches > 0
