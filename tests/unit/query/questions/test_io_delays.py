"""What a neighbour moved is counted once, beside however many requests of the victim it was."""

from cotenant.query.engine.session import Session
from cotenant.query.questions.loader import find
from tests.virtual.device import START_NS
from tests.virtual.store import VirtualStore

MS = 1_000_000


def request(store, tenant, at, took, size, weight=1):
    row = {"timestamp_ns": START_NS + at * MS, "duration_ns": took * MS, "device": "nvme0n1"}
    row |= {"sector": 0, "error": 0, "attribution": "task", "op": "read", "bytes": size}
    store.add("io_events", tenant, row | {"weight": weight})


def test_bytes_of_a_neighbour_are_those_of_its_requests(tmp_path):
    store = VirtualStore(tmp_path / "store")
    for at in range(50):
        request(store, "victim", at * 10, 5, 4096)
    sizes = (1_000_003, 2_000_003)
    for at, size in zip((0, 200), sizes, strict=True):
        request(store, "neighbour", at, 95, size)
    with Session(store.write()) as session:
        rows = {row["tenant"]: row for row in session.ask(find("io_delays").render()).rows()}
    assert rows["victim"]["neighbour_bytes"] == sum(sizes)
    assert rows["victim"]["requests_beside"] == 20
    assert rows["neighbour"]["neighbour_bytes"] == 20 * 4096


def test_a_request_stands_for_those_that_have_no_row(tmp_path):
    store = VirtualStore(tmp_path / "store")
    for at in range(50):
        request(store, "victim", at * 10, 5 if at < 30 else 3, 4096, weight=3)
    request(store, "neighbour", 0, 300, 1_000_003, weight=7)
    with Session(store.write()) as session:
        rows = {row["tenant"]: row for row in session.ask(find("io_delays").render()).rows()}
    row = rows["victim"]
    assert (row["neighbour_bytes"], row["requests_beside"]) == (7 * 1_000_003, 90)
    assert (row["requests_alone"], row["delayed_ns"]) == (60, 90 * 2 * MS)
