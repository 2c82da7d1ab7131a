"""Nobody waits for another tenant's backlog, and nobody's backlog grows without bound."""

import errno
import io
import os
import queue

import pytest

from cotenant.agent.helper.fair_queue import (
    ENDED,
    MOUNTS,
    OURS,
    SOMEBODY,
    FairQueue,
    PassedOver,
    QueueClosed,
    tenant_of,
)

CONTAINER = "a" * 64


def taken(fair: FairQueue[int], number: int) -> list[tuple[str, int]]:
    found = []
    for _ in range(number):
        found.append(fair.get(0))
        fair.done(found[-1][0])
    return found


def test_each_tenant_has_one_item_in_turn() -> None:
    fair: FairQueue[int] = FairQueue()
    for number in range(1009):
        assert fair.put("storm", number)
    assert fair.put("one", 1)
    assert fair.put("two", 2)
    found = taken(fair, 5)
    assert found == [("storm", 0), ("one", 1), ("two", 2), ("storm", 1), ("storm", 2)]
    assert len(fair) == 1009 - 3


def test_what_the_host_mounts_waits_for_one_tenant_at_most() -> None:
    fair: FairQueue[int] = FairQueue()
    for number in range(5):
        assert fair.put(f"t{number}", number)
    for number in range(3):
        assert fair.put(MOUNTS, number)
    found = [tenant for tenant, _ in taken(fair, 8)]
    assert found == [MOUNTS, "t0", MOUNTS, "t1", MOUNTS, "t2", "t3", "t4"]


def test_what_is_urgent_goes_first_but_not_for_ever() -> None:
    fair: FairQueue[int] = FairQueue()
    assert fair.put("calm", 7, urgent=False)
    for number in range(23):
        assert fair.put("storm", number)
    found = [tenant for tenant, _ in taken(fair, 24)]
    assert found == ["storm"] * 8 + ["calm"] + ["storm"] * 15


def test_who_has_enough_waiting_gets_no_more_in_and_all_others_do() -> None:
    fair: FairQueue[int] = FairQueue(each_max=3, all_max=5)
    assert [fair.put("storm", number) for number in range(5)] == [True, True, True, False, False]
    assert [fair.put("one", number) for number in range(3)] == [True, True, False]
    # However full it is, everybody has one, and so has our own work.
    assert fair.put("two", 2)
    assert all(fair.put(OURS, number) for number in range(11))
    assert len(fair) == 3 + 2 + 1 + 11


def test_a_tenant_that_is_being_served_waits_for_itself_alone() -> None:
    fair: FairQueue[int] = FairQueue()
    for number in range(3):
        assert fair.put("slow", number)
    assert fair.put("calm", 7)
    assert [fair.get(0), fair.get(0)] == [("slow", 0), ("calm", 7)]
    with pytest.raises(queue.Empty):
        fair.get(0.001)
    fair.done("slow")
    assert fair.get(0) == ("slow", 1)


def test_a_closed_queue_serves_nobody() -> None:
    fair: FairQueue[int] = FairQueue()
    assert fair.put("one", 1)
    fair.close()
    with pytest.raises(QueueClosed):
        fair.get()


def test_an_empty_queue_says_so_in_time() -> None:
    with pytest.raises(queue.Empty):
        FairQueue().get(0.001)


def tenant(monkeypatch: pytest.MonkeyPatch, *lines: str) -> str:
    raw = "".join(f"{line}\n" for line in lines).encode()
    monkeypatch.setattr("builtins.open", lambda *_, **__: io.BytesIO(raw))
    return tenant_of(5)


def test_a_tenant_is_the_outermost_cgroup_that_the_host_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    user = "/user.slice/user-1000.slice"
    mine = f"0::{user}/user@1000.service/user.slice/libpod-{CONTAINER}.scope/container"
    assert tenant(monkeypatch, mine) == user
    nested = f"0::/docker/{CONTAINER}/docker/{'b' * 64}"
    assert tenant(monkeypatch, nested) == f"/docker/{CONTAINER}"
    assert tenant(monkeypatch, "0::/system.slice/a.service/b/c") == "/system.slice/a.service"
    assert tenant(monkeypatch, "0::/") == "/"


def test_on_two_hierarchies_the_one_that_names_somebody_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = [f"4:memory:/docker/{CONTAINER}", "1:name=systemd:/init.scope", "0::/"]
    assert tenant(monkeypatch, *lines) == f"/docker/{CONTAINER}"
    assert tenant(monkeypatch, lines[0], "0::/mine") == "/mine"
    assert tenant(monkeypatch, "4:memory:/", "1:name=systemd:/init.scope", "0::/") == "/init.scope"


def test_a_process_that_is_gone_belongs_to_those_that_ended() -> None:
    assert tenant_of(1 << 30) == ENDED


@pytest.mark.parametrize(
    ("number", "owner"),
    [(errno.ENOENT, ENDED), (errno.ESRCH, ENDED), (errno.ENAMETOOLONG, SOMEBODY)],
)
def test_a_process_of_whose_cgroup_nothing_is_told_is_not_one_that_ended(
    number: int, owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("builtins.open", fail)
    assert tenant_of(os.getpid()) == owner


def test_what_is_passed_over_is_told_once_and_by_name_for_a_few() -> None:
    passed_over = PassedOver()
    assert passed_over.take_news() is None
    assert passed_over.take_news(last=True) is None
    passed_over.add("mappings", "storm", 1009)
    for number in range(101):
        passed_over.add("looks", f"t{number}")
    told = passed_over.take_news()
    assert told is not None
    assert told.counts["mappings"] == {"storm": 1009}
    assert len(told.counts["looks"]) == 64 + 1
    assert told.counts["looks"]["others"] == 101 - 64
    assert passed_over.take_news() is None
