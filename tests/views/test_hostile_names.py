"""Names that a tenant chose to harm whoever reads them: harmless wherever they go out."""

import csv
import io
import json
import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from cotenant.printable import escaped
from cotenant.query.engine.session import Session
from cotenant.store.writer import StoreWriter
from cotenant.views import metrics, text
from cotenant.views.cli import main
from cotenant.views.export import export

NOW_NS = 1_790_000_000_000_000_000
CALLS = 23
ESC, RLO, CSI, NEWLINE = "\x1b", "\u202e", "\x9b", "\n"
HOSTILE = {
    "escape": f"a{ESC}]0;owned\x07{ESC}[2J",
    "bidi": f"ml/{RLO}niart",
    "c1": f"a{CSI}31mred",
    "line": f'a{NEWLINE}"ml/train","1"{NEWLINE}',
    "return": "a\rml/train",
    "separator": "a\u2028b\u2029c\x85d",
    "tag": "a\U000e0041b",
    "isolate": "\u2066x\u2069",
    "formula": "=HYPERLINK(\"http://evil.example\",\"ml/train\")",
    "plus": "+cmd|' /C calc'!A0",
    "minus": "-2+3+cmd|' /C calc'!A0",
    "at": "@SUM(1+1)*cmd|' /C calc'!A0",
    "tab": "\t=1+1",
    "space": "  =1+1",
    "wide": "\uff1d1+1",
    "quote": '"=1+1","',
    "backslash": "a\\x1b",
}  # fmt: skip
FORMULA = re.compile(r"\s*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Each of these names is a tenant's, a kernel's and a process's."""
    root = tmp_path_factory.mktemp("hostile") / "store"
    with StoreWriter(root, node="n", boot_id="b") as writer:
        who, events, totals = [], [], []
        for number, name in enumerate(HOSTILE.values(), 1):
            row = {"cgroup_id": number, "tenant": name, "container_id": name, "name": name}
            who.append(row | {"image": name, "node": "n", "boot_id": "b"})
            row = {"timestamp_ns": NOW_NS + number, "pid": 1, "tid": 1, "cgroup_id": number}
            row |= {"comm": name, "op": "launch", "api": "cuLaunchKernel", "kernel_name": name}
            events.append(row | {"duration_ns": 7, "weight": 1})
            row = {"timestamp_ns": NOW_NS, "cgroup_id": number, "family": "cuda", "max_ns": 7}
            row |= {"function": "cuLaunchKernel", "count": CALLS, "sum_ns": 7, "bytes": 0}
            totals.append(row | {"histogram": [0, 0, CALLS]})
        writer.replace("containers", pa.Table.from_pylist(who))
        writer.append("cuda_events", pa.Table.from_pylist(events))
        writer.append("totals", pa.Table.from_pylist(totals))
        writer.seal(NOW_NS)
    return root


def run(capsys, *words):
    code = main([str(word) for word in words])
    return code, capsys.readouterr().out


def harmless(written):
    return all(line.isprintable() for line in written.split("\n"))


SQL = "SELECT tenant, cgroup_id, -cgroup_id AS minus, -0.5 AS half FROM containers ORDER BY ALL"
IN_ORDER = sorted((name, number) for number, name in enumerate(HOSTILE.values(), 1))


def test_csv_has_a_line_for_each_row_that_no_spreadsheet_runs(capsys, store):
    code, out = run(capsys, "sql", SQL, "--format", "csv", "--store", store)
    assert code == 0
    assert harmless(out)
    rows = list(csv.reader(io.StringIO(out)))
    assert len(out.splitlines()) == len(rows) == len(HOSTILE) + 1
    assert not any(FORMULA.match(row[0]) for row in rows[1:])
    assert [row[0].removeprefix("'") for row in rows[1:]] == [escaped(n) for n, _ in IN_ORDER]
    assert [row[2:] for row in rows[1:]] == [[f"-{number}", "-0.5"] for _, number in IN_ORDER]


def test_csv_leaves_text_that_is_a_number_alone(capsys, store):
    sql = "SELECT '-12.5' AS a, '+1e-9' AS b, '-1-1' AS c, -3::HUGEINT AS d, NULL AS e"
    _, out = run(capsys, "sql", sql, "--format", "csv", "--store", store)
    assert out.splitlines()[1] == """"-12.5","+1e-9","'-1-1",-3,"""


def test_raw_csv_and_json_have_every_byte(capsys, store):
    names = [name for name, _ in IN_ORDER]
    _, out = run(capsys, "sql", SQL, "--format", "csv", "--raw", "--store", store)
    assert [row[0] for row in csv.reader(io.StringIO(out, newline=""))][1:] == names
    _, out = run(capsys, "sql", SQL, "--format", "json", "--raw", "--store", store)
    assert [row["tenant"] for row in json.loads(out)] == names
    assert RLO in out


def test_raw_is_for_programs(capsys, store):
    assert main(["sql", "SELECT 1", "--raw", "--store", str(store)]) == 2
    assert capsys.readouterr().err == "cotenant: --raw applies to --format csv and json\n"


def test_json_is_exact_and_harmless(capsys, store):
    _, out = run(capsys, "sql", SQL, "--format", "json", "--store", store)
    assert harmless(out)
    assert [row["tenant"] for row in json.loads(out)] == [name for name, _ in IN_ORDER]
    _, out = run(capsys, "tenants", "--all", "--json", "--store", store)
    assert harmless(out)
    assert {row["tenant"] for row in json.loads(out)} == set(HOSTILE.values())


@pytest.mark.parametrize(
    "words",
    [
        ("sql", SQL),
        ("sql", 'SELECT 1 AS "a\x1b[2J"'),
        ("sql", "EXPLAIN SELECT 1 FROM cuda_events WHERE comm = '\x1b[2J'"),
        ("tenants", "--all"),
        ("ask", "top_kernels"),
        ("ask", "who_uses_what"),
        ("explain",),
        ("top", "--once"),
    ],
)
def test_what_is_for_people_moves_no_cursor(capsys, store, words):
    main([*words, "--store", str(store)])
    said = capsys.readouterr()
    assert harmless(said.out)
    assert harmless(said.err)


def scraped(store, **options):
    with Session(store) as session:
        written = metrics.Metrics(**options).scrape(lambda: session).decode()
    samples = [
        (sample.labels["tenant"], sample.value)
        for family in text_string_to_metric_families(written)
        for sample in family.samples
        if sample.name == "cotenant_launches_total"
    ]
    return written, samples


def test_metrics_have_each_tenant_once_and_no_control_character(store):
    written, samples = scraped(store)
    assert harmless(written)
    assert sorted(samples) == sorted((escaped(name), CALLS) for name in HOSTILE.values())


def test_raw_metrics_have_every_byte(store):
    _, samples = scraped(store, raw=True)
    assert sorted(samples) == sorted((name, CALLS) for name in HOSTILE.values())


def test_an_exported_table_is_as_harmless(store, tmp_path):
    with Session(store) as session:
        export(session, "csv", tmp_path / "safe", ["cuda_events"])
        export(session, "csv", tmp_path / "raw", ["cuda_events"], raw=True)
    safe = (tmp_path / "safe" / "cuda_events.csv").read_text("utf-8")
    assert harmless(safe)
    names = [row["kernel_name"] for row in csv.DictReader(io.StringIO(safe))]
    assert [name.removeprefix("'") for name in names] == list(map(escaped, HOSTILE.values()))
    with open(tmp_path / "raw" / "cuda_events.csv", encoding="utf-8", newline="") as file:
        assert [row["kernel_name"] for row in csv.DictReader(file)] == list(HOSTILE.values())


@pytest.mark.parametrize("raw", [False, True])
def test_a_trace_is_as_harmless(store, tmp_path, raw):
    with Session(store) as session:
        export(session, "perfetto", tmp_path / "t.pftrace", raw=raw)
    written = (tmp_path / "t.pftrace").read_bytes()
    for name in HOSTILE.values():
        assert escaped(name).encode() in written or raw
        if name != HOSTILE["backslash"]:  # Another's name is written like the beginning of this.
            assert (name.encode() in written) == (raw or name == escaped(name))


def test_what_a_recorder_and_a_doctor_say_moves_no_cursor(capsys):
    from cotenant.agent.doctor import Check
    from cotenant.views.cli.doctor import _print
    from cotenant.views.cli.record import _LiveLine

    hostile = "".join(HOSTILE.values())
    _LiveLine([hostile]).tell()
    _print(Check("name", False, hostile, hostile, True, (hostile,)))
    said = capsys.readouterr()
    assert harmless(said.out)
    assert harmless(said.err)


def unescaped(written):
    def meant(found):
        return chr(int(found[0][2:], 16))

    spelled = re.compile(r"\\x[0-9a-f]{2}|\\u[0-9a-f]{4}|\\U000[0-9a-f]{5}|\\U0010[0-9a-f]{4}")

    def one(found):
        character = meant(found)
        return found[0] if character.isprintable() and character != "\\" else character

    return spelled.sub(one, written)


@given(st.text() | st.text(st.sampled_from("\\xuU0123456789abcf\x1b\u202e")))
def test_two_names_never_become_one(name):
    assert escaped(name).isprintable()
    assert unescaped(escaped(name)) == name


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_means_what_it_meant(value):
    written = text.as_json(value)
    assert harmless(written)
    assert json.loads(written) == value
