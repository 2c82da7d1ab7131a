"""Names are asked for at once, then ever more rarely, and never forever."""

from cotenant.identity import Backlog, NameQuestion, parse_path
from cotenant.identity.naming.backlog import BACKOFF_NS


def question(key):
    return NameQuestion(key, parse_path(key), key)


def test_a_question_is_due_at_once_and_out_until_it_is_settled():
    backlog = Backlog()
    backlog.add(question("/a/b"), 100)
    backlog.add(question("/a/b"), 100)

    assert [q.key for q in backlog.due(100)] == ["/a/b"]
    assert backlog.due(10**12) == []
    assert backlog.next_ns() is None


def test_an_unanswered_question_is_asked_again_later_each_time():
    backlog = Backlog()
    backlog.add(question("/a/b"), 0)
    now, waits = 0, []
    while backlog.due(now):
        backlog.settle("/a/b", complete=False, now_ns=now)
        due = backlog.next_ns()
        if due is not None:
            waits.append(due - now)
            now = due

    assert waits == list(BACKOFF_NS)
    assert (len(backlog), backlog.given_up) == (0, 1)


def test_an_answer_closes_the_question():
    backlog = Backlog()
    backlog.add(question("/a/b"), 0)
    backlog.due(0)
    backlog.settle("/a/b", complete=True, now_ns=5)

    assert (len(backlog), backlog.given_up, backlog.next_ns()) == (0, 0, None)


def test_the_newest_question_is_asked_first_and_the_oldest_is_pushed_out():
    backlog = Backlog(size_max=3)
    for name in "abcde":
        backlog.add(question(f"/x/{name}"), 0)

    assert [q.key for q in backlog.due(0)] == ["/x/e", "/x/d", "/x/c"]
    assert backlog.dropped == 2


def test_who_has_most_questions_open_loses_one_to_a_newer_one():
    backlog = Backlog(size_max=7)
    container = "/docker/{:064x}".format
    backlog.add(question(container(1)), 0)
    for number in range(11):
        backlog.add(question(f"{container(2)}/docker/{number:064x}"), 0)
    backlog.add(question(container(3)), 0)

    asked = [q.identity.owner_path for q in backlog.due(0)]
    assert (asked.count(container(1)), asked.count(container(3))) == (1, 1)
    assert (len(asked), backlog.dropped) == (7, 6)
