"""The loop takes a turn when something comes, and never more than so many."""

import os
import time

from cotenant.agent.helper import turns as module
from cotenant.agent.helper.turns import Turns

A_SECOND = 500


def test_what_never_stops_coming_gets_no_more_turns_than_the_rate_allows() -> None:
    there, put = os.pipe()
    os.write(put, b"x")
    turns = Turns()
    turns.wake_on(there)
    for _ in range(100):  # What was saved up is used.
        turns.next(1)
    began, taken = time.monotonic(), 0
    while time.monotonic() < began + 0.4:
        assert turns.next(1) == {there}
        taken += 1
    assert taken <= A_SECOND * (time.monotonic() - began) + 1
    os.close(there)
    os.close(put)


def test_what_can_wait_takes_fewer_turns_and_holds_up_nothing_else() -> None:
    (patient, put_patient), (urgent, put_urgent) = os.pipe(), os.pipe()
    os.write(put_patient, b"x")
    turns = Turns()
    turns.wake_on(patient, patient=True)
    turns.wake_on(urgent)
    for _ in range(200):  # What was saved up is used.
        turns.next(1)
    began, taken = time.monotonic(), 0
    while time.monotonic() < began + 0.4:
        assert turns.next(1) == {patient}
        taken += 1
    assert taken <= (time.monotonic() - began) / module._PATIENT_EVERY_S + 1
    os.write(put_urgent, b"x")
    assert urgent in turns.next(1)
    os.read(urgent, 1)
    assert turns.next(1) == {patient}
    for fd in (patient, put_patient, urgent, put_urgent):
        os.close(fd)


def test_after_what_can_wait_another_turn_comes_soon_though_nothing_wakes() -> None:
    there, put = os.pipe()
    turns = Turns()
    turns.wake_on(there, patient=True)
    os.write(put, b"x")
    assert turns.next(60) == {there}
    os.read(there, 1)
    began = time.monotonic()
    assert turns.next(60) == set()
    assert time.monotonic() - began < module._PATIENCE_S / 2
    os.close(there)
    os.close(put)


def test_saved_turns_and_those_of_a_second_are_within_the_bound() -> None:
    assert (module._SAVED_S + 1) / module._EVERY_S <= A_SECOND


def test_a_turn_in_which_nothing_was_tended_is_followed_by_one_in_which_it_is() -> None:
    turns = Turns()
    assert turns.may_tend()
    assert not turns.may_tend()
    assert turns.next(60) == set()
    assert turns.may_tend()
