"""What a neighbour moved is counted once, beside however many requests of the victim it was."""

from cotenant.query.engine.session import Session
from cotenant.query.questions.loader import find
from tests.virtual.device import START_NS
from tests.virtual.store import VirtualStore

MS = 1_000_000


def request(store, tenant, at, took, size):
    row = {"timestamp_ns": START_NS + at * MS, "duration_ns": took * MS, "device": "nvme0n1"}
    row |= {"sector": 0, "error": 0, "attribution": "task", "op": "read", "bytes": size}
    store.add("io_events", tenant, row)


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
