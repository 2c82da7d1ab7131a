"""The server of the page: what it says of a store in any state, and to whom."""

import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from cotenant.errors import UsageError
from cotenant.store.writer import StoreWriter
from tests.serving import COLLECTIVES, KERNELS, LAUNCHES, NOW_NS, TENANTS, serving, three_tenants

NOBODY = 65534


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return three_tenants(tmp_path_factory.mktemp("serve") / "store")


@pytest.fixture(scope="module")
def served(store):
    with serving(store) as running:
        yield running


def get(served, name, **query):
    text = "&".join(f"{key}={value}" for key, value in query.items())
    reply = served.request(f"/api/{name}?{text}")
    assert reply.status == 200, reply.body
    return reply.json


def whole_tile(served):
    return get(served, "tile", **{"from": NOW_NS - 1_000, "cell": 1 << 21})


def test_status_names_the_tenants_and_their_counts(served):
    status = get(served, "status")
    launches = {tenant["name"]: tenant["events"]["cuda"] for tenant in status["tenants"]}
    assert launches == LAUNCHES
    assert status["state"] == "recorded"
    assert status["start_ns"] == str(NOW_NS)
    assert status["lacks"] == ["incomplete: 5 of 58 cuda events were lost"]


def test_each_tenant_has_a_lane_per_stream_and_one_for_nccl(served):
    lanes = get(served, "status")["lanes"]
    found = {(lane["tenant"], lane["family"], lane["stream"]) for lane in lanes}
    streams = {str(0x5581_0000_0000), str(0x5581_0000_0001)}
    for tenant in TENANTS:
        assert {s for t, f, s in found if (t, f) == (tenant, "cuda")} == streams
    assert ("ml/train", "nccl", None) in found


def test_every_launch_is_a_slice_of_its_tenant(served):
    status, tile = get(served, "status"), whole_tile(served)
    owners = {lane["id"]: lane for lane in status["lanes"]}
    seen = dict.fromkeys(LAUNCHES, 0)
    for lane, name in zip(tile["lane"], tile["name"], strict=True):
        if owners[lane]["family"] == "cuda":
            seen[owners[lane]["tenant"]] += 1
            assert tile["names"][name] == KERNELS[owners[lane]["tenant"]]
    assert tile["raw"]
    assert seen == LAUNCHES


def test_a_slice_leads_to_its_whole_row_and_the_sql_behind_it(served):
    answer = get(served, "event", family="cuda", at=NOW_NS, tid=103)
    row = dict(zip(answer["columns"], answer["rows"][0], strict=True))
    assert row["kernel_name"] == "secret_kernel"
    assert row["cgroup_id"] == str(TENANTS["slurm/4711"])
    assert row["timestamp_ns"] == str(NOW_NS)
    again = served.sql(answer["sql"]).json
    assert again["rows"] == answer["rows"]


def test_a_lane_says_what_it_did_between_two_moments(served):
    lanes = get(served, "status")["lanes"]
    lane = next(x["id"] for x in lanes if (x["tenant"], x["family"]) == ("ml/train", "nccl"))
    answer = get(served, "cell", lane=lane, **{"from": NOW_NS, "to": NOW_NS + 10**9})
    assert answer["rows"] == [["AllReduce", COLLECTIVES, 1_000_003 * COLLECTIVES, 1_000_003]]


def test_the_tables_are_about_the_time_on_screen(served):
    half = get(served, "tables", **{"from": NOW_NS, "to": NOW_NS + 10**9 // 2})
    calls = {row[0]: row[2] for row in half["kernels"]["rows"]}
    assert calls == {name: (count + 1) // 2 for name, count in LAUNCHES.items()}


def test_sql_answers_with_exact_ids_and_says_what_is_missing(served):
    answer = served.sql("SELECT cgroup_id, count(*) FROM cuda_events GROUP BY 1 ORDER BY 2").json
    assert answer["rows"] == [[str(TENANTS[name]), LAUNCHES[name]] for name in reversed(TENANTS)]
    assert answer["lacks"] == ["incomplete: 5 of 58 cuda events were lost"]


def test_the_questions_start_with_the_two_promised_queries(served):
    questions = get(served, "questions")["questions"]
    assert questions[0]["name"] == "kernels"
    for question in questions[:2]:
        assert served.sql(question["sql"]).status == 200


def test_every_answer_is_hardened(served):
    for path in ("/", "/app.js", "/page.css", "/api/status", "/nowhere"):
        headers = served.request(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers


def test_an_empty_store_is_said_to_be_empty(tmp_path):
    with StoreWriter(tmp_path / "store", node="n", boot_id="b"):
        pass
    with serving(tmp_path / "store") as served:
        assert get(served, "status")["state"] == "empty"


def test_a_store_that_is_not_there_yet_is_shown_when_it_is(tmp_path):
    root = tmp_path / "store"
    with serving(root) as served:
        reply = served.request("/api/status")
        assert reply.status == 503
        assert reply.error.startswith(f"no store at {root}")
        three_tenants(root)
        assert get(served, "status")["state"] == "recorded"


def test_a_store_that_disappears_is_missed_in_words_and_found_again(tmp_path):
    root = three_tenants(tmp_path / "store")
    with serving(root) as served:
        assert get(served, "status")["state"] == "recorded"
        shutil.move(root, tmp_path / "elsewhere")
        for path in ("/api/status", f"/api/tile?from={NOW_NS}&cell=1024"):
            reply = served.request(path)
            assert reply.status == 503
            assert reply.error.startswith(f"no store at {root}")
        assert "no store" in served.sql("SELECT 1 FROM cuda_events").error
        assert served.request("/metrics").status == 503
        shutil.move(tmp_path / "elsewhere", root)
        assert get(served, "status")["state"] == "recorded"
        assert served.sql("SELECT count(*) FROM cuda_events").json["rows"] == [[365]]


GIVEN = "a-token-of-the-tests"


def said_by_serve(*words, environment=None):
    """What `cotenant serve` prints before it listens, or why it does not."""
    command = [sys.executable, "-m", "cotenant", "serve", "--port", "0", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False,
                          env=os.environ | (environment or {}))  # fmt: skip


@pytest.fixture
def token_file(tmp_path):
    file = tmp_path / "token"
    file.write_text(f"{GIVEN}\n")
    file.chmod(0o600)
    return file


def test_a_given_token_is_used_and_never_printed(store, token_file):
    for options, environment in (
        (("--token-file", str(token_file)), {}),
        ((), {"COTENANT_TOKEN": GIVEN}),
    ):
        with serving(store, *options, token=GIVEN, environment=environment) as served:
            assert GIVEN not in served.said
            assert served.said.startswith(f"serving {store} at http://127.0.0.1:{served.port}/ ")
            assert served.request("/api/questions").status == 200
            environ = Path(f"/proc/{served.process.pid}/cmdline").read_text()
            assert GIVEN not in environ


def test_a_token_of_its_own_is_printed_and_new_each_time(store):
    with serving(store) as first, serving(store) as second:
        assert len({first.token, second.token}) == 2
        assert f"#token={first.token}\n" in first.said


@pytest.mark.parametrize("mode", [0o604, 0o644, 0o602, 0o620, 0o666, 0o640, 0o600, 0o400])
def test_a_token_that_others_can_read_or_change_is_refused(store, token_file, monkeypatch, mode):
    from cotenant.views.cli import serve

    token_file.chmod(mode)
    if mode & 0o026:
        with pytest.raises(UsageError) as refused:
            serve.given_token(token_file)
        assert "chmod 640" in str(refused.value)
        assert GIVEN not in str(refused.value)
    else:
        assert serve.given_token(token_file) == (GIVEN, str(token_file))


@pytest.mark.parametrize("kind", ["fifo", "directory", "device", "none", "long", "short", "odd"])
def test_a_token_file_that_is_none_is_refused_at_once(store, tmp_path, kind):
    file = tmp_path / "token"
    if kind == "fifo":
        os.mkfifo(file, 0o600)
    elif kind == "directory":
        file.mkdir()
    elif kind == "device":
        file = Path("/dev/zero")
    elif kind != "none":
        file.write_text({"long": "x" * 9_000_000, "short": "x", "odd": "x y" * 9}[kind])
        file.chmod(0o600)
    done = said_by_serve("--store", store, "--token-file", file, "--as-root")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert str(file) in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is root")
def test_root_serves_only_if_told_to(store):
    done = said_by_serve("--store", store)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--as-root" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.fixture
def short():
    """A directory whose path is short enough for a socket's."""
    with tempfile.TemporaryDirectory(prefix="cotenant-") as name:
        yield Path(name)


def test_a_unix_socket_is_for_the_group_of_the_store(short):
    root = three_tenants(short / "store", gid=NOBODY if os.geteuid() == 0 else None)
    path = short / "page.sock"
    with serving(root, "--socket", str(path), socket=path) as served:
        about = path.stat()
        assert stat.S_IMODE(about.st_mode) == 0o660
        assert about.st_gid == root.stat().st_gid
        assert served.request("/api/status").json["state"] == "recorded"
        assert served.request("/metrics").status == 200
        for host in ("localhost", "localhost:7411", "127.0.0.1:9", "[::1]:80"):
            assert served.request("/api/status", headers={"Host": host}).status == 200
            own = {"Host": host, "Origin": f"http://{host}"}
            assert served.request("/api/status", headers=own).status == 200
        for host in ("evil.example", "evil.example:7411", "localhost.evil.example", "localhost:x"):
            assert served.request("/api/status", headers={"Host": host}).status == 403
        other = {"Host": "localhost:7411", "Origin": "http://localhost:7412"}
        assert served.request("/api/status", headers=other).status == 403
        assert served.request("/api/status", token=None).status == 401
        with socket.socket(socket.AF_UNIX) as silent:
            silent.connect(str(path))
            assert served.request("/").status == 200
    assert not path.exists()


def test_a_socket_that_was_left_behind_is_replaced_and_nothing_else(store, short):
    path = short / "page.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with serving(store, "--socket", str(path), socket=path) as served:
        assert served.request("/").status == 200
        done = said_by_serve("--store", store, "--socket", path, "--as-root")
        assert done.returncode == 2
        assert "somebody listens" in done.stderr
        assert served.request("/").status == 200
    path.write_text("precious")
    done = said_by_serve("--store", store, "--socket", path, "--as-root")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert path.read_text() == "precious"
