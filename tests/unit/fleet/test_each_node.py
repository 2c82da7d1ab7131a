"""Every question, put to each of eight nodes in a task of its own: the answer of one session."""

from dataclasses import asdict, replace

import duckdb
import pytest

from cotenant.errors import QuestionError
from cotenant.fleet.groups import together
from cotenant.fleet.runner import Here
from cotenant.query.engine.cuts import Spread, after_cut
from cotenant.query.engine.session import Session
from cotenant.query.engine.statement import named_tables, tree_of, with_clauses
from cotenant.query.findings.explain import explain
from cotenant.query.questions.loader import find, questions
from cotenant.query.screens.tenants import meant
from tests.fleets import NODES, opened, same

QUESTIONS = sorted(questions())


@pytest.fixture(scope="module")
def one_session(fleet):
    with Session(fleet) as session:
        yield session


@pytest.fixture(scope="module")
def tasks(fleet):
    return opened(fleet, Here())


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_question_says_how_it_is_put_to_many_nodes(name):
    """Without a table of the store in its last step, which runs where there is none."""
    question = questions()[name]
    assert question.cuts, f"{name}.sql has no `-- nodes:` line"
    given = {query for cut in question.cuts for query in cut.queries}
    with duckdb.connect(":memory:") as connection:
        rest = tree_of(connection, after_cut(question.render(), given))
    queries = {entry["key"] for entry in with_clauses(rest["node"])}
    assert named_tables(rest) <= queries


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_answer_is_that_of_one_session(one_session, tasks, name):
    question = questions()[name]
    expected = one_session.ask(question.render())
    answer = tasks.ask(question.render(), question.cuts)
    assert expected.table.num_rows
    assert answer.table.schema == expected.table.schema
    assert same(answer.rows(), expected.rows())
    assert _told(answer) == _told(expected)


def _told(answer):
    return asdict(answer.standing) | {"unrecorded": set(answer.standing.unrecorded)}


def test_findings_are_those_of_one_session(one_session, tasks):
    expected, found = explain(one_session), tasks.explain(None)
    assert expected.findings
    assert same(asdict(found), asdict(expected))


@pytest.mark.parametrize("name", ["copies", "who_stole_cpu"])
def test_one_tenant_in_a_window_is_that_of_one_session(fleet, name):
    """Of a job over all nodes, and of the first moments alone."""
    question, tenant = find(name), "slurm/1000"
    with Session(fleet) as session:
        to_ns = session.ask("select median(timestamp_ns)::bigint as ns from cuda_events").rows()
    window = {"to_ns": to_ns[0]["ns"]}
    tasks = opened(fleet, Here(), **window)
    about = question.about_others
    tenants = meant(fleet, tenant) if about else None
    assert tasks.meant(tenant)[1] == meant(fleet, tenant)
    with Session(fleet, tenant=None if about else tenant, **window) as session:
        expected = session.ask(question.render((), tenants))
    narrowed = tasks if about else tasks.of(tenant)
    answer = narrowed.ask(question.render((), tenants), question.cuts)
    assert expected.table.num_rows
    assert same(answer.rows(), expected.rows())


def test_rows_of_each_node_come_with_it(tasks):
    rows = tasks.each("select count(*) as calls from cuda_events").rows()
    assert [row["node"] for row in rows] == [f"node-{number:04}" for number in range(NODES)]
    own = tasks.each("select node, count(*) as calls from cuda_events group by node").rows()
    assert own == rows


def test_what_is_wrong_with_a_statement_is_told_once(tasks):
    with pytest.raises(QuestionError, match="no_such"):
        tasks.each("select no_such from cuda_events")
    with pytest.raises(QuestionError, match="there is no tenant nobody"):
        tasks.of("nobody")


def test_an_empty_store_has_an_answer_without_rows(tmp_path):
    from cotenant.store.writer import StoreWriter

    StoreWriter(tmp_path / "store", node="n", boot_id="b").close()
    question = find("top_kernels")
    answer = opened(tmp_path / "store", Here()).ask(question.render(), question.cuts)
    assert answer.rows() == []


def test_a_worker_of_another_version_is_refused(tasks):
    class Older(Here):
        def run(self, tasks, told):
            return super().run([replace(task, version="0.0.9") for task in tasks], told)

    with pytest.raises(Exception, match=r"this is 0\.0\.9; install one on all"):
        replace(tasks, runner=Older()).each("select 1")


def test_nodes_that_share_a_communicator_are_together():
    ranks = {"a": [1], "b": [2], "c": [1, 3], "d": [], "e": [3], "f": [2]}
    assert sorted(together(ranks)) == [("a", "c", "e"), ("b", "f"), ("d",)]


def test_communicators_are_looked_for_on_every_node(tasks):
    assert tasks._groups(Spread.COMMUNICATORS) == [tasks.nodes]
