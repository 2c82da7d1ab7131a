"""Questions: their files are well formed, their parameters typed, their SQL runs as shown."""

import re

import pytest

from cotenant.errors import QuestionError, UsageError
from cotenant.query.derived.registry import DERIVED
from cotenant.query.engine.session import Session
from cotenant.query.engine.statement import read_only
from cotenant.query.questions.loader import find, questions, read_question
from cotenant.schema import TABLES

TEXT = """-- title: Slow calls
-- question: Who waits?
-- param: limit BIGINT = 7   how many rows
-- param: longer DURATION = 5ms   only these
-- param: who VARCHAR = null   only this one
-- reading: The longer, the worse;
-- much the worse.
select $limit as a, $longer as b, $who as c;
"""


def test_a_header_says_what_a_question_is():
    question = read_question("slow", TEXT)
    assert question.title == "Slow calls"
    assert question.question == "Who waits?"
    assert question.reading == "The longer, the worse; much the worse."
    assert [(p.name, p.type, p.default, p.doc) for p in question.params] == [
        ("limit", "BIGINT", "7", "how many rows"),
        ("longer", "DURATION", "5ms", "only these"),
        ("who", "VARCHAR", "null", "only this one"),
    ]


def test_parameters_are_filled_in_by_their_type():
    question = read_question("slow", TEXT)
    assert question.render() == "select 7 as a, 5000000 as b, NULL::VARCHAR as c"
    filled = question.render(["limit=3", "longer=2s", "who=o'brien; drop"])
    assert filled == "select 3 as a, 2000000000 as b, 'o''brien; drop' as c"


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("limit=many", "limit=many: expected a whole number from 0 on"),
        ("longer=7", "longer=7: expected a duration like 90s, 5m or 2h"),
        ("limit", "'limit' is not a parameter; write name=value"),
        ("top=7", "slow has no parameter top; it has limit, longer, who"),
    ],
)
def test_a_setting_that_means_nothing_is_said_so(setting, words):
    with pytest.raises(UsageError, match=re.escape(words)):
        read_question("slow", TEXT).render([setting])


def test_a_parameter_that_cannot_be_read_is_the_files_fault():
    with pytest.raises(QuestionError, match="cannot parse the parameter"):
        read_question("slow", "-- title: t\n-- param: limit NUMBER = 3\nselect 1")


def test_an_unknown_question_is_answered_with_what_was_meant():
    with pytest.raises(UsageError, match="no question top_kernel; did you mean top_k"):
        find("top_kernel")


@pytest.mark.parametrize("name", sorted(questions()))
def test_every_question_is_explained_and_runs_on_a_store(recorded, name):
    question = questions()[name]
    assert question.title
    assert question.question.endswith("?")
    assert question.reading.endswith(".")
    assert all(p.doc for p in question.params)
    used = set(re.findall(r"\$(\w+)", question.sql))
    assert used == {p.name for p in question.params}
    with Session(recorded.root) as session:
        first = session.ask(question.render())
        assert {"tenant", "victim"} & set(first.table.column_names)
        # What was shown can be asked again as it is.
        assert session.ask(first.sql).table.equals(first.table)


@pytest.mark.parametrize("name", sorted(n for n, t in DERIVED.items() if t.sql))
def test_every_view_is_made_from_what_its_header_names(recorded, name):
    view = DERIVED[name]
    with Session(recorded.root) as session:
        named = read_only(session._connection.cursor(), view.sql).tables
        own = set(re.findall(r"(\w+) as (?:materialized )?\(", view.sql))
    # A view that unites what is stored with what is derived has the stored table's name.
    stored = {name} & set(TABLES)
    # Who has holes is told by views that come with the losses.
    if "losses" in view.sources:
        own |= {"blind", "sharing"}
    made_of = {"beats": "losses", "recordings": "sessions"}
    named = {made_of.get(table, table) for table in named} - {"bounds"}
    assert named - own - stored == {*view.sources, *view.before}
    assert view.doc.endswith(".")


def test_derived_tables_are_listed_with_the_others(ask):
    names = {name for (name,) in ask("SELECT table_name FROM duckdb_tables()")}
    names |= {name for (name,) in ask("SELECT view_name FROM duckdb_views() WHERE NOT internal")}
    assert set(DERIVED) <= names


def test_a_tenant_and_a_time_narrow_every_question(recorded):
    with Session(recorded.root, tenant="ml/serve") as session:
        rows = session.ask(find("top_kernels").render()).rows()
    assert [(row["tenant"], row["kernel_name"], row["launches"]) for row in rows] == [
        ("ml/serve", "gemm", 3),
        ("ml/serve", "[memcpy HtoD]", 2),
    ]
    with Session(recorded.root, from_ns=1_790_000_002_000_000_000) as session:
        rows = session.ask(find("top_kernels").render()).rows()
    assert [row["kernel_name"] for row in rows] == ["[memcpy HtoD]"]


def test_an_answer_from_a_view_says_what_was_lost_behind_it(recorded):
    recorded.losses(11, seen=13, lost=2)
    recorded.seal()
    with Session(recorded.root) as session:
        answer = session.ask(find("gpu_use").render())
    assert [(loss.family, loss.lost) for loss in answer.losses] == [("cuda", 2)]
    assert answer.interval is not None
