"""``--each-node`` and ``--on``, as a user types them."""

import io
import json
import socket
import sys

import pytest

from cotenant.errors import UsageError
from cotenant.fleet.master import SparkError, check_reachable
from cotenant.views.cli import main

JOB = "slurm/1000"


@pytest.fixture
def run(fleet, capsys):
    """``run(*words)``: the exit code, and what was printed."""

    def run(*words):
        code = main([*words, "--store", str(fleet)])
        return code, capsys.readouterr()

    return run


@pytest.mark.parametrize(
    "words",
    [
        ["ask", "slow_calls", "--tenant", JOB],
        ["ask", "nccl_cost", "limit=3", "--node", "node-0001", "--node", "node-0002"],
        ["ask", "who_stole_cpu", "--tenant", JOB, "--since", "1m"],
        ["ask", "compare_tenants", f"a={JOB}"],
        ["explain", "--node", "node-0001", "--node", "node-0002"],
    ],
)
def test_the_command_prints_the_same(run, words):
    code, plain = run(*words, "--json")
    assert code == 0
    assert json.loads(plain.out).get("rows") or json.loads(plain.out)["findings"]
    assert run(*words, "--json", "--each-node", "--on", "here") == (0, plain)


def test_sql_prints_rows_with_their_node(run):
    words = ["SELECT count(*) AS calls FROM nccl_events", "--each-node", "--on", "here"]
    code, told = run("sql", *words, "--format", "csv", "--node", "node-0003")
    head, line = told.out.splitlines()
    assert (code, head, line.partition(",")[0]) == (0, '"node","calls"', '"node-0003"')


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["copies", "--on", "nowhere"], "--on nowhere: write here, local[*] or spark://HOST:7077"),
        (["copies", "--each-node", "--follow"], "--each-node answers once; do without --follow"),
        (["compare_windows", "--on", "here", "--against", "x"],
         "--against compares two stores; do without --each-node"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_line(run, words, why):
    code, told = run("ask", *words)
    assert (code, told.err) == (2, f"cotenant: {why}\n")


def test_without_spark_it_is_told_how_to_get_it(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    code, told = run("ask", "copies", "--each-node")
    assert code == 2
    assert "pip install 'cotenant[spark]'; --on here needs nothing" in told.err


@pytest.mark.parametrize(
    ("master", "why"),
    [
        ("spark://127.0.0.1:1", "Connection refused"),
        ("spark://127.0.0.1:1,127.0.0.1:2", "Connection refused"),
        ("spark://no-such-host.invalid:7077", ".*"),
    ],
)
def test_a_master_that_is_not_there_is_told_at_once(master, why):
    with pytest.raises(SparkError, match=rf"^no Spark master at {master}: {why}; start one there"):
        check_reachable(master)


def test_a_master_is_found_by_any_of_its_addresses():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        check_reachable(f"spark://127.0.0.1:1,127.0.0.1:{listening.getsockname()[1]}")
    check_reachable("local[2]")


@pytest.mark.parametrize("place", ["nowhere", "host:", ":7077", "host:port", "host:70770"])
def test_a_master_without_host_or_port_is_refused(place):
    with pytest.raises(UsageError, match="write spark://HOST:7077"):
        check_reachable(f"spark://{place}")


def test_a_terminal_is_told_how_far_it_is(fleet, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    assert main(["ask", "nccl_cost", "--on", "here", "--store", str(fleet)]) == 0
    shown = terminal.getvalue().split("\r\x1b[K")
    assert shown[1:9] == [f"{done} of 8 tasks done; Ctrl-C stops" for done in range(8)]
    assert not shown[-1].strip() or "incomplete" in shown[-1]
