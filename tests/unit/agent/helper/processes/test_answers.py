"""Nobody's names come too late because somebody else's files do not answer."""

import pytest

from cotenant.agent.helper.processes import answers as module
from cotenant.agent.helper.processes.answers import Answers


@pytest.fixture
def told() -> list[int]:
    return []


@pytest.fixture
def answers(told: list[int]) -> Answers:
    return Answers(told.append)


def test_a_question_is_answered_when_everything_before_it_is_told(
    answers: Answers, told: list[int]
) -> None:
    for tenant in ("one", "one", "two"):
        answers.begin(tenant)
    answers.wanted(5)
    answers.end("one")
    answers.end("two")
    assert told == []
    answers.end("one")
    assert told == [5]
    answers.wanted(6)
    assert told == [5, 6]


def test_who_was_late_is_not_waited_for_again(answers: Answers, told: list[int]) -> None:
    answers.begin("hangs")
    answers.wanted(1)
    for number in range(2, 9):
        answers.begin("calm")
        answers.wanted(number)
        assert told == list(range(2, number))
        answers.end("calm")
    assert told == list(range(2, 9))
    answers.end("hangs")
    assert told == list(range(2, 9))


def test_who_was_late_is_waited_for_after_a_while(
    answers: Answers, told: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LATE_S", 0.0)
    answers.begin("slow")
    answers.wanted(1)
    answers.wanted(2)
    answers.end("slow")
    answers.begin("slow")
    answers.wanted(3)
    assert told == [2]
    answers.end("slow")
    assert told == [2, 3]
