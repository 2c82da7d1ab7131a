"""Reading a bucket: what the window and nodes need is fetched, kept up to a bound, and read."""

import errno
import os

import pytest

from cotenant.remote.bucket import Bucket
from cotenant.remote.cache import Cache
from cotenant.remote.fetch import FarStore
from cotenant.remote.shipped import ALL_ROWS
from cotenant.views.cli import main
from tests.serving import serving
from tests.unit.remote.fleet import MIDNIGHT_NS, MINUTE_NS, Fleet, all_rows
from tests.unit.remote.s3_server import direct_client, objects, upload

WHERE = "s3://readers/all"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("COTENANT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def far(server, tmp_path_factory):
    """Two nodes' rows in a directory and in a bucket alike."""
    place = tmp_path_factory.mktemp("shipped")
    fleet = Fleet(place / "near", place / "far")
    for number in range(2):
        fleet.record(f"node-{number}", number + 1)
    fleet.ship(tables=ALL_ROWS)
    with direct_client(server) as client:
        client.create_bucket(Bucket="readers")
        upload(client, "readers", "all", fleet.far)
        yield fleet.far


@pytest.fixture
def shipped(far, cache, proxy):
    return far


def answer(capsys, *words):
    assert main(list(words)) == 0
    return capsys.readouterr().out


def kept(cache):
    return sorted(p for p in cache.rglob("*.parquet") if not p.parts[-5].startswith("view-"))


def gets(proxy):
    return [p for method, p, _ in proxy.seen if method == "GET" and p.endswith(".parquet")]


def test_a_view_has_all_rows_and_leaves_nothing(shipped, cache):
    with FarStore(Bucket(WHERE), Cache(cache, WHERE)).view() as view:
        far = FarStore(Bucket(WHERE), Cache(cache, WHERE))
        far.fill(view, lambda _: True)
        assert all_rows(view) == all_rows(shipped)
    assert not view.exists()
    assert not list(cache.glob("view-*"))


FIRST, LAST = str(MIDNIGHT_NS - 10 * MINUTE_NS), str(MIDNIGHT_NS + 10 * MINUTE_NS)


@pytest.mark.parametrize(
    "words",
    [
        ["sql", "SELECT node, count(*), min(timestamp_ns) FROM cuda_events GROUP BY 1 ORDER BY 1"],
        ["sql", "FROM limits ORDER BY ALL", "--from", FIRST],
        ["sql", "SELECT count(*) FROM rollups", "--to", LAST, "--node", "node-1"],
        ["ask", "nccl_cost", "--json", "--from", FIRST, "--to", LAST],
        ["ask", "who_uses_what", "--json", "--since", "5m"],
        ["tenants", "--json"],
        ["top", "--once", "--json"],
        ["explain", "--json"],
        ["ask", "nccl_cost", "--json", "--from", FIRST, "--to", LAST, "--on", "here"],
        ["sql", "SELECT count(*) AS calls FROM cuda_events", "--each-node", "--on", "here"],
        ["explain", "--json", "--each-node", "--on", "here"],
    ],
)
def test_a_bucket_answers_as_the_directory_does(shipped, capsys, words):
    near = answer(capsys, *words, "--store", str(shipped))
    assert answer(capsys, *words, "--store", WHERE) == near


def test_the_page_of_a_bucket_is_that_of_the_directory(shipped):
    pages = []
    for store in (shipped, WHERE):
        with serving(store) as served:
            lanes = served.request("/api/status").json["lanes"]
            rows = served.sql("SELECT node, count(*) FROM cuda_events GROUP BY 1 ORDER BY 1").json
        pages.append((lanes, rows["rows"]))
    assert pages[0] == pages[1]
    assert len(pages[0][1]) == 2


def test_no_more_is_fetched_than_the_window_and_nodes_need(shipped, capsys, proxy, cache):
    proxy.seen.clear()
    words = ["sql", "SELECT count(*) FROM cuda_events", "--from", str(MIDNIGHT_NS), "--node"]
    answer(capsys, *words, "node-1", "--store", WHERE)
    first = gets(proxy)
    assert all("node%3Dnode-1" in path or "node=node-1" in path for path in first)
    assert not any("io_events/date=2026-09-20" in p.replace("%3D", "=") for p in first)
    proxy.seen.clear()
    answer(capsys, *words, "node-1", "--store", WHERE)
    assert gets(proxy) == []


def test_the_least_recently_used_goes_first(shipped, cache):
    whole = Cache(cache, WHERE)
    far = FarStore(Bucket(WHERE), whole)
    with far.view() as view:
        far.fill(view, lambda s: s.table == "cuda_events")
        far.fill(view, lambda s: s.table == "io_events")
    before = kept(cache)
    for path in before:
        os.utime(path, (1, 1 if "cuda_events" in str(path) else 2))
    size = sum(p.stat().st_size for p in before if "io_events" in str(p))
    need = [("totals/x.parquet", 100)]
    Cache(cache, WHERE, size + 100).make_room(need)
    assert kept(cache) == [p for p in before if "io_events" in str(p)]


def test_what_does_not_fit_is_one_line(shipped, cache, monkeypatch, capsys):
    monkeypatch.setenv("COTENANT_CACHE_BYTES", "4k")
    assert main(["sql", "FROM cuda_events", "--store", WHERE]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "query less time or fewer nodes, or set COTENANT_CACHE_BYTES" in line


def test_a_full_disk_is_one_line_and_loses_nothing(shipped, cache, monkeypatch, capsys):
    real = os.fdopen

    def full(fd, *words):
        if "cuda_events" in os.readlink(f"/proc/self/fd/{fd}"):
            os.close(fd)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, *words)

    monkeypatch.setattr(os, "fdopen", full)
    assert main(["tenants", "--store", WHERE]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "the disk is full; free some space" in line
    assert not list(cache.rglob("*.part"))
    assert not list(cache.glob("view-*"))
    monkeypatch.setattr(os, "fdopen", real)
    assert main(["tenants", "--store", WHERE]) == 0


def test_faults_change_no_answer(shipped, capsys, proxy):
    proxy.fails = 0.1
    words = ["sql", "SELECT count(*) FROM cuda_events", "--store"]
    near = answer(capsys, *words, str(shipped))
    for _ in range(20):
        code, told = main([*words, WHERE]), capsys.readouterr()
        if code == 0:
            assert told.out == near
            break
        assert len(told.err.splitlines()) == 1
    else:
        raise AssertionError("never an answer")


def test_a_bucket_without_a_store_and_one_that_is_gone_are_one_line(s3, bucket, cache, capsys):
    for where, words in (
        ("s3://fleet", "is not a store"),
        ("s3://gone/x", "there is no bucket gone"),
    ):
        assert main(["tenants", "--store", where]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert words in line


def test_an_object_that_is_gone_is_one_line(shipped, s3, capsys):
    lost = next(key for key in objects(s3, "readers") if "cuda_events" in key)
    s3.delete_object(Bucket="readers", Key=lost)
    assert main(["tenants", "--store", WHERE]) == 1
    upload(s3, "readers", "all", shipped)
    (line,) = capsys.readouterr().err.splitlines()
    assert "which a manifest names; ship it again" in line


def test_what_is_no_reader_wants_a_directory(cache, capsys):
    assert main(["health", "--store", WHERE]) == 2
    assert "needs a directory" in capsys.readouterr().err


def test_the_view_of_a_dead_reader_is_removed(shipped, cache, capsys):
    (cache / "view-dead" / "manifest").mkdir(parents=True)
    answer(capsys, "tenants", "--store", WHERE)
    assert not (cache / "view-dead").exists()


def test_a_refused_credential_is_one_line(shipped, cache, proxy, capsys):
    proxy.denies = True
    assert main(["tenants", "--store", WHERE]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "refused; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in line
