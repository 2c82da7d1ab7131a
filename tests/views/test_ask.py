"""``cotenant ask``: the answer in words and units, what it covers, and what it lacks."""

import json
import shlex

import pyarrow as pa
import pytest

from cotenant.query.questions.loader import questions
from cotenant.store.writer import StoreWriter
from cotenant.views import units
from cotenant.views.cli import main

NOW_NS = 1_790_000_000_000_000_000
LOST = "incomplete: 12 of 1,234 cuda events were lost\n"


def test_without_a_name_the_questions_are_listed(cotenant):
    code, out, _ = cotenant("ask")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == sorted(questions())
    listed = json.loads(cotenant("ask", "--json")[1])
    assert [question["name"] for question in listed] == sorted(questions())


def test_an_answer_has_units_its_tenants_its_time_and_what_it_lacks(cotenant):
    code, out, err = cotenant("ask", "slow_calls")
    assert code == 0
    assert err == LOST
    lines = out.splitlines()
    assert lines[0].split()[:5] == ["tenant", "api", "calls", "mean", "p99"]
    assert lines[2].split()[:4] == ["ml/train", "cuLaunch…", "7", "1.50"]
    assert lines[-1] == "(2 rows; 2026-09-21 14:13:20 to 14:14:20 UTC)"


def test_json_has_exact_numbers_and_the_standing(cotenant):
    code, out, _ = cotenant("ask", "slow_calls", "--tenant", "slurm/4711", "--json")
    answer = json.loads(out)
    assert code == 0
    assert answer["question"] == "slow_calls"
    assert answer["tenant"] == "slurm/4711"
    assert [(row["tenant"], row["calls"], row["mean_ns"]) for row in answer["rows"]] == [
        ("slurm/4711", 3, 1_500_000)
    ]
    assert answer["from_ns"] <= NOW_NS + 60_000_000_000 <= answer["to_ns"]


def test_the_sql_that_is_shown_can_be_asked_as_it_is(cotenant):
    _, out, _ = cotenant("ask", "slow_calls", "--show-sql", "limit=1")
    sql, _, answer = out.partition("\n\n")
    assert "$" not in sql
    assert sql.endswith("limit 1")
    assert "(1 row;" in answer
    code, again, _ = cotenant("sql", sql, "--format", "json")
    assert code == 0
    assert json.loads(again)[0]["tenant"] == "ml/train"


def test_the_options_that_are_shown_with_the_sql_can_be_pasted(cotenant, store):
    _, out, _ = cotenant("ask", "slow_calls", "--show-sql", "--from", "2026-09-21 14:13:20")
    line = out.partition("\n")[0]
    same = ["--store", str(store), "--from", "2026-09-21 14:13:20"]
    assert shlex.split(line) == ["--", "cotenant", "sql", *same]


def test_settings_may_stand_before_and_after_options(cotenant):
    first = cotenant("ask", "slow_calls", "limit=1", "--json")
    second = cotenant("ask", "--json", "slow_calls", "--tenant", "ml/train", "limit=1")
    assert (first[0], second[0]) == (0, 0)
    assert json.loads(first[1])["rows"] == json.loads(second[1])["rows"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["slow_call"], 2, "cotenant: no question slow_call; did you mean slow_calls"),
        (["slow_calls", "limit=x"], 2, "cotenant: limit=x: expected a whole number from 0 on"),
        (["slow_calls", "--tenant", "ml/trian"], 1, "cotenant: there is no tenant ml/trian; did"),
        (["slow_calls", "--since", "soon"], 2, "cotenant: 'soon' is not a duration"),
    ],
)
def test_what_cannot_be_asked_is_one_line(cotenant, words, code, said):
    found, out, err = cotenant("ask", *words)
    assert (found, out) == (code, "")
    assert err.startswith(said)
    assert err.count("\n") == 1


def test_nothing_to_show_is_said_in_words(cotenant):
    assert cotenant("ask", "copies", "--tenant", "slurm/4711")[1] == (
        "Copies and bandwidth: no rows for slurm/4711, 2026-09-21 14:13:20 to 14:14:20 UTC\n"
    )
    assert cotenant("ask", "interference")[1] == (
        "interference: no events of any tenant were recorded in this window\n"
    )
    assert cotenant("ask", "nccl_cost", "--tenant", "ml/train")[1] == (
        "nccl_cost: no events of ml/train were recorded in this window\n"
    )


@pytest.fixture
def empty(place):
    StoreWriter(place / "empty", node="node-a", boot_id="boot-1").close()
    return place / "empty"


def _one_event(root):
    who = {"cgroup_id": 5, "tenant": "alone", "container_id": "alone"}
    row = {"timestamp_ns": NOW_NS, "pid": 1, "tid": 1, "cgroup_id": 5, "comm": "a", "op": "launch"}
    row |= {"api": "cuLaunchKernel", "kernel_name": "gemm", "duration_ns": 7_000, "weight": 1}
    with StoreWriter(root, node="node-a", boot_id="boot-1") as writer:
        who |= {"node": "node-a", "boot_id": "boot-1"}
        writer.replace("containers", pa.Table.from_pylist([who]))
        writer.append("cuda_events", pa.Table.from_pylist([row]))
        writer.seal(NOW_NS)
    return root


@pytest.mark.parametrize("verb", [["explain"], ["ask", "top_kernels"], ["ask", "interference"]])
def test_an_empty_store_is_answered_in_words(empty, capsys, verb):
    code = main([*verb, "--store", str(empty)])
    said = capsys.readouterr()
    assert "is empty" in said.out + said.err
    assert code in (0, 1)


@pytest.mark.parametrize("name", sorted(questions()))
def test_one_event_of_one_tenant_is_enough_for_every_question(place, capsys, name):
    root = _one_event(place / "one")
    assert main(["ask", name, "--store", str(root)]) == 0
    assert capsys.readouterr().out


def test_one_event_has_nothing_that_stands_out(place, capsys):
    assert main(["explain", "--store", str(_one_event(place / "one"))]) == 0
    assert capsys.readouterr().out.startswith("nothing stands out for 1 tenant\n")


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("mean_ns", 1_500_000, "1.50 ms"),
        ("began_at_ns", NOW_NS, "2026-09-21 14:13:20.000"),
        ("total_bytes", 3 << 30, "3 GiB"),
        ("per_s_bytes", 1.5 * 2**20, "1.50 MiB/s"),
        ("share", 0.123, "12.3 %"),
        ("calls", 7, 7),
        ("mean_ns", None, None),
    ],
)
def test_a_column_is_shown_in_the_unit_that_its_name_says(name, value, shown):
    assert units.shown(name, value) == shown


def test_a_tenant_that_is_a_parameter_may_be_called_as_anywhere_else(cotenant):
    by_name = cotenant("ask", "compare_tenants", "a=slurm/4711", "b=ml/train", "--json")
    assert by_name[0] == 0
    assert {row["tenant"] for row in json.loads(by_name[1])["rows"]} == {"slurm/4711"}
    assert cotenant("ask", "compare_tenants", "a=4711", "b=c0ffee", "--json") == by_name
    code, out, err = cotenant("ask", "compare_tenants", "a=slurm/4712")
    assert (code, out) == (1, "")
    assert err == "cotenant: there is no tenant slurm/4712; did you mean slurm/4711?\n"
