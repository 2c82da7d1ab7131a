"""Shipping into a bucket, behind a proxy that fails one request in ten."""

import pytest

from cotenant.errors import StoreError, UsageError
from cotenant.remote.bucket import Bucket
from cotenant.remote.near import NearNode
from cotenant.remote.plan import Closing
from cotenant.remote.ship import Shipper
from cotenant.remote.shipped import ALL_ROWS
from cotenant.store.nodes import all_nodes
from tests.unit.remote.faulty_proxy import FAULTS
from tests.unit.remote.fleet import MINUTE_NS, NOW_NS, TO_NS, all_rows
from tests.unit.remote.s3_server import download, empty
from tests.unit.remote.test_ship import Crash

NODES = 20
EVERY = 3  # Puts to a crash.
SOME = ("rollups", "totals")


class Crashing(Bucket):
    """Ends the process after so many puts: before or after the last of them is there."""

    def __init__(self, where, puts, *, after):
        super().__init__(where)
        self._left, self._after = puts, after

    def write(self, path, content, pace):
        self._left -= 1
        if self._left < 0 and not self._after:
            raise Crash
        super().write(path, content, pace)
        if self._left < 0:
            raise Crash


def ship_somehow(fleet, node, closing):
    """Starts anew after each crash, and each error; how many crashes that were."""
    crashes = 0
    while True:
        try:
            place = Crashing("s3://fleet/all", EVERY, after=crashes % 2)
            Shipper(NearNode(fleet.root, node), place, ALL_ROWS).ship(closing)
        except Crash:
            crashes += 1
        except StoreError:
            continue
        else:
            return crashes


def test_the_far_store_equals_the_near_one_through_faults_and_crashes(
    fleet, proxy, s3, bucket, tmp_path
):
    for number in range(NODES):
        # The first has rows of every table, of two days.
        about = {} if number == 0 else {"from_ns": TO_NS - 5 * MINUTE_NS, "tables": SOME}
        fleet.record(f"node-{number}", number + 1, **about)
    proxy.fails = 0.1
    closing = Closing(NOW_NS, at_rest=True)
    crashes = sum(ship_somehow(fleet, node, closing) for node in all_nodes(fleet.root))
    assert crashes >= NODES
    assert {fault for _, _, fault in proxy.seen} == {None, *FAULTS}
    download(s3, bucket, "all", tmp_path / "copy")
    assert all_rows(tmp_path / "copy") == all_rows(fleet.root)
    proxy.fails = 0
    proxy.seen.clear()
    assert fleet.ship(Bucket("s3://fleet/all"), ALL_ROWS) == 0
    assert {method for method, _, _ in proxy.seen} <= {"GET", "HEAD"}


def test_a_bucket_that_is_not_there_is_one_line(fleet, s3):
    fleet.record("node-a", 1, tables=("rollups",))
    with pytest.raises(StoreError, match=r"^there is no bucket nowhere; make it"):
        fleet.ship(Bucket("s3://nowhere/all"))


def test_a_bucket_that_vanishes_is_one_line_and_loses_nothing(fleet, s3, bucket, tmp_path):
    fleet.record("node-a", 1)
    place = Bucket("s3://fleet/all")
    real, puts = place.write, []

    def write(path, content, pace):
        puts.append(path)
        if len(puts) == 7:
            empty(s3, bucket)
            s3.delete_bucket(Bucket=bucket)
        real(path, content, pace)

    place.write = write
    with pytest.raises(StoreError, match=r"^there is no bucket fleet; make it"):
        fleet.ship(place, ALL_ROWS)
    s3.create_bucket(Bucket=bucket)
    fleet.ship(Bucket("s3://fleet/all"), ALL_ROWS)
    download(s3, bucket, "all", tmp_path / "copy")
    assert all_rows(tmp_path / "copy") == all_rows(fleet.root)


def test_an_address_that_is_none_is_refused(monkeypatch):
    for where in ("s3://", "s3:///x", "s3://b//c", "s3://b/../c"):
        with pytest.raises(UsageError, match="names no bucket"):
            Bucket(where)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "somewhere")
    with pytest.raises(UsageError, match="is no address"):
        Bucket("s3://b/c")


def test_a_server_that_is_away_is_one_line(fleet, monkeypatch, proxy):
    fleet.record("node-a", 1, tables=("rollups",))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(StoreError, match=r"no answer from http://127.0.0.1:1; is it reachable"):
        fleet.ship(Bucket("s3://fleet/all"))


def test_a_refused_credential_is_one_line_and_loses_nothing(fleet, proxy, s3, bucket, tmp_path):
    fleet.record("node-a", 1, tables=("rollups",))
    proxy.denies = True
    with pytest.raises(StoreError, match=r"^cannot read .*: refused; check AWS_ACCESS_KEY_ID"):
        fleet.ship(Bucket("s3://fleet/all"), ALL_ROWS)
    proxy.denies = False
    fleet.ship(Bucket("s3://fleet/all"), ALL_ROWS)
    download(s3, bucket, "all", tmp_path / "copy")
    assert all_rows(tmp_path / "copy") == all_rows(fleet.root)
