"""``cotenant sql``: what is printed, where, and with which exit code."""

import csv
import io
import json
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cotenant.query.questions.promises import promise
from cotenant.store.writer import StoreWriter

LOST = "incomplete: 12 of 1,234 cuda events were lost\n"
NOBODY = 65534

TOP_KERNELS = promise("kernels")


def test_a_table_is_80_columns_wide_with_numbers_right_and_long_texts_elided(cotenant):
    code, out, err = cotenant("sql", TOP_KERNELS)
    assert (code, err) == (0, LOST)
    assert out == (
        "container_id                   kernel_name                    launches  total_ms\n"
        "-----------------------------  -----------------------------  --------  --------\n"
        "c0ffee0000000000000000000000…  void at::native::vectorized_…         7    10.500\n"
        "slurm/4711                     gemm                                  3     4.500\n"
        "(2 rows; 2026-09-21 14:13:20 to 14:14:20 UTC)\n"
    )
    assert max(map(len, out.splitlines())) <= 80


def test_columns_that_do_not_fit_are_left_out_and_said(cotenant):
    _, out, _ = cotenant("sql", "SELECT * FROM cuda_events LIMIT 1")
    assert max(map(len, out.splitlines())) <= 80
    assert "more columns do not fit" in out.splitlines()[-2]


def test_json_is_an_array_of_objects_with_exact_numbers(cotenant):
    _, out, err = cotenant("sql", TOP_KERNELS, "--format", "json")
    rows = json.loads(out)
    assert [(row["container_id"], row["launches"], row["total_ms"]) for row in rows] == [
        ("c0ffee" + "0" * 58, 7, 10.5),
        ("slurm/4711", 3, 4.5),
    ]
    assert err == LOST


def test_json_of_no_rows_is_an_empty_array(cotenant):
    _, out, _ = cotenant("sql", "FROM nccl_events", "--format", "json")
    assert json.loads(out) == []


def test_json_keeps_63_bits_and_sums_beyond(cotenant):
    sql = "SELECT max(cgroup_id) AS id, sum(cgroup_id) AS total FROM containers"
    _, out, _ = cotenant("sql", sql, "--format", "json")
    total = 4_611_686_018_427_387_847 + 2_305_843_009_213_693_951 + 1_152_921_504_606_846_883
    assert json.loads(out) == [{"id": 4_611_686_018_427_387_847, "total": total}]


def test_null_and_empty_text_can_be_told_apart_in_every_format(cotenant):
    sql = "SELECT NULL::VARCHAR AS n, '' AS e, 'x' AS x"
    assert "NULL     x" in cotenant("sql", sql)[1]
    assert cotenant("sql", sql, "--format", "csv")[1] == '"n","e","x"\n,"","x"\n'
    assert json.loads(cotenant("sql", sql, "--format", "json")[1]) == [
        {"n": None, "e": "", "x": "x"}
    ]


def test_csv_is_read_back_by_an_ordinary_reader(cotenant):
    sql = "SELECT 'a \"b\", c' || chr(10) || 'd' AS t, 1.5 AS f, [1, 2] AS l, true AS b"
    for raw, line in ((("--raw",), "\n"), ((), "\\x0a")):
        _, out, _ = cotenant("sql", sql, "--format", "csv", *raw)
        assert list(csv.reader(io.StringIO(out))) == [
            ["t", "f", "l", "b"],
            [f'a "b", c{line}d', "1.5", "[1, 2]", "true"],
        ]


def test_values_that_json_does_not_know_are_text_or_null(cotenant):
    sql = "SELECT 'nan'::DOUBLE AS nan, DATE '2026-09-21' AS d, 'ab'::BLOB AS b, {'k': 1} AS s"
    _, out, _ = cotenant("sql", sql, "--format", "json")
    assert json.loads(out) == [{"nan": None, "d": "2026-09-21", "b": "6162", "s": {"k": 1}}]


def test_a_repeated_name_is_numbered(cotenant):
    _, out, _ = cotenant("sql", "SELECT 1 AS a, 2 AS a", "--format", "json")
    assert json.loads(out) == [{"a": 1, "a_1": 2}]


def test_arrow_is_a_stream_of_the_same_rows(process):
    code, out, err = process("sql", TOP_KERNELS, "--format", "arrow")
    assert (code, err) == (0, LOST)
    assert pa.ipc.open_stream(out).read_all()["launches"].to_pylist() == [7, 3]


def test_parquet_is_a_file_of_the_same_rows(process):
    code, out, _ = process("sql", "FROM containers", "--format", "parquet")
    rows = pq.read_table(io.BytesIO(out))
    assert (code, rows.num_rows) == (0, 3)


def test_sql_may_come_from_stdin(cotenant):
    code, out, _ = cotenant("sql", "-", "--format", "json", stdin="SELECT 1 AS one")
    assert (code, json.loads(out)) == (0, [{"one": 1}])


def test_a_tenant_and_a_window_narrow_the_answer(cotenant):
    sql = "SELECT count(*) AS n FROM cuda_events"
    for words, count in (
        (("--tenant", "ml/train"), 7),
        (("--tenant", "4711"), 3),
        (("--from", "2026-09-21T14:14:00"), 3),
        (("--to", "2026-09-21 16:14:00+02:00"), 7),
        (("--since", "30s", "--to", "2026-09-21T14:14:40"), 3),
    ):
        _, out, _ = cotenant("sql", sql, "--format", "json", *words)
        assert json.loads(out) == [{"n": count}], words


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (
            ("SELECT nmae FROM containers",),
            1,
            'cotenant: Referenced column "nmae" not found in FROM clause; Candidate bindings: '
            '"name", ',
        ),
        (("DROP VIEW containers",), 1, "cotenant: DROP is refused; only reading is allowed: "),
        (("FROM '/etc/passwd'",), 1, "cotenant: '/etc/passwd' is not a table of the store; see "),
        (("SELECT 1", "--tenant", "ml/trian"), 1, "cotenant: there is no tenant ml/trian; did "),
        (
            ("SELECT 1", "--since", "soon"),
            2,
            "cotenant: 'soon' is not a duration; write 90s, 5m or",
        ),
        (("SELECT 1", "--from", "then"), 2, "cotenant: 'then' is not a time; write 2026-09-21T14:"),
        (("SELECT 1", "--since", "1s", "--from", "1"), 2, "cotenant: --since and --from both set"),
        (("SELECT 1", "--store", "/nonexistent"), 1, "cotenant: no store at /nonexistent; record"),
        (("SELECT 1", "--store", "/etc"), 1, "cotenant: /etc is not a store; record one with "),
    ],
)
def test_what_cannot_be_is_one_line_and_an_exit_code(process, words, code, line):
    returned, out, err = process("sql", *words)
    assert (returned, out) == (code, b"")
    assert err.startswith(line)
    assert err.count("\n") == 1


def test_an_unknown_format_is_wrong_usage(process):
    code, _, err = process("sql", "SELECT 1", "--format", "xml")
    assert code == 2
    assert "invalid choice: 'xml'" in err


def test_an_empty_store_is_said_in_words(process, tmp_path):
    StoreWriter(tmp_path / "new", node="n", boot_id="b").close()
    code, out, err = process("sql", "FROM cuda_events", "--store", str(tmp_path / "new"))
    assert code == 0
    assert err == f"the store {tmp_path / 'new'} is empty: nothing was recorded yet\n"
    assert out.decode().endswith("(0 rows)\n")


def test_nobody_in_the_right_group_may_ask(process):
    code, out, err = process("sql", TOP_KERNELS, "--format", "json", user=NOBODY)
    assert (code, err) == (0, LOST)
    assert len(json.loads(out)) == 2


def test_who_is_not_in_the_group_is_told_so(process, store):
    for path in (store, *store.rglob("*")):
        os.chown(path, 0, 0)
    code, _, err = process("sql", "SELECT 1", user=NOBODY)
    assert code == 1
    assert err == (
        f"cotenant: no permission to read the store {store}; join its group, see `ls -ld {store}`\n"
    )


def test_a_reader_who_has_seen_enough_is_no_failure(store):
    command = [sys.executable, "-m", "cotenant", "sql", "SELECT * FROM range(3000000)"]
    command += ["--format", "csv", "--store", str(store)]
    asked = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert asked.stdout.readline() == b'"range"\n'
    asked.stdout.close()
    assert asked.stderr.read() == b""
    assert asked.wait(timeout=60) == 0
    asked.stderr.close()
