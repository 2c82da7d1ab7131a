"""Every question on Spark, with two workers and with one of them killed, as one session answers."""

import os

import pytest

from cotenant.fleet.spark import spark
from cotenant.query.engine.session import Session
from cotenant.query.findings.explain import explain
from cotenant.query.questions.loader import questions
from tests import fleets
from tests.lacking import lacking
from tests.spark.cluster import ROOT, Cluster, why_not
from tests.spark.slowed import slowed

QUESTIONS = sorted(questions())


@pytest.fixture(scope="module", autouse=True)
def spark_there():
    if reason := why_not():
        lacking("spark", reason)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT)}
    with Cluster(tmp_path_factory.mktemp("spark")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def runner(cluster):
    with spark(cluster.master) as runner:
        yield runner


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    root = tmp_path_factory.mktemp("fleet") / "store"
    fleets.fill(root)
    return root


@pytest.fixture(scope="module")
def one_session(fleet):
    with Session(fleet) as session:
        yield session


class LosesAWorker:
    """Runs tasks on Spark, and kills a worker when a third of the first tasks are done."""

    threads = 1

    def __init__(self, runner, cluster):
        self._runner, self._cluster = runner, cluster
        self.lost_at = None

    def run(self, tasks, told):
        def watched(done, of):
            if self.lost_at is None and done >= of / 3:
                self.lost_at = (done, of)
                self._cluster.lose_worker()

        if self.lost_at is None:
            tasks = [slowed(task) for task in tasks]
        return self._runner.run(tasks, watched)


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_answer_of_two_workers_is_that_of_one_session(one_session, fleet, runner, name):
    question = questions()[name]
    answer = fleets.opened(fleet, runner).ask(question.render(), question.cuts)
    assert fleets.same(answer.rows(), one_session.ask(question.render()).rows())


def test_findings_are_those_of_one_session(one_session, fleet, runner):
    found = fleets.opened(fleet, runner).explain(None)
    assert found.findings == explain(one_session).findings


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_worker_that_dies_changes_nothing(one_session, fleet, runner, cluster, name):
    question = questions()[name]
    losing = LosesAWorker(runner, cluster)
    answer = fleets.opened(fleet, losing).ask(question.render(), question.cuts)
    cluster.add_worker()
    done, of = losing.lost_at
    assert of / 3 <= done < of
    assert fleets.same(answer.rows(), one_session.ask(question.render()).rows())
