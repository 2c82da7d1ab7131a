"""Probes that rested come back, whatever the tenant does who brought their file."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from cotenant.agent.helper.libraries.libraries import Libraries
from cotenant.agent.protocol.reports import AttachGap, Report, Rested
from cotenant.agent.protocol.requests import Rest
from cotenant.probes.changes import TooMany
from cotenant.probes.plan import Plan
from tests.unit.agent.helper.libraries.conftest import consider
from tests.unit.agent.helper.libraries.test_libraries import Refusing


def storm_rests(
    libraries: Libraries, monkeypatch: pytest.MonkeyPatch, file: Path
) -> tuple[set[str], list[Report]]:
    """A function rests in a file that a storm brought; who maps it, and what is told."""
    told: list[Report] = []
    mapped = {"/storm"}
    function = SimpleNamespace(id=7, family="cuda")
    plan = Plan(("cuda",), None, (SimpleNamespace(function=function),))  # type: ignore[arg-type]
    monkeypatch.setattr(libraries, "_plan", lambda *_: plan)
    monkeypatch.setattr(libraries.resting, "_mappers", lambda files: dict.fromkeys(files, mapped))
    monkeypatch.setattr(libraries.gaps, "_tell", told.append)
    monkeypatch.setattr(libraries, "_tell_of", lambda *_: None)
    libraries.gaps.begin()
    assert consider(libraries, file, "/storm")
    monkeypatch.setattr(libraries, "_tell", told.append)
    libraries.rest(Rest({"/storm": (7,)}, 1))
    return mapped, told


def blind_in(report: Report) -> list[str]:
    assert isinstance(report, Rested)
    return sorted(one.tenant for one in report.blind)


def test_probes_that_rest_come_back_by_who_needs_them_though_their_owner_has_no_time(
    libraries: Libraries, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mapped, told = storm_rests(libraries, monkeypatch, tmp_path / "a")
    handed: list[str] = []

    def put(tenant: str, work: Callable[[], None]) -> bool:
        handed.append(tenant)
        if tenant != "/storm":
            work()
        return tenant != "/storm"

    libraries.by_owner.put = put
    mapped.add("/calm")
    libraries.rest_again()
    assert handed == ["/calm"]
    rested, gap, back = told
    assert blind_in(rested) == ["/storm"]
    assert isinstance(gap, AttachGap)
    assert (gap.tenant, blind_in(back)) == ("/calm", [])


def test_probes_that_cannot_come_back_are_tried_again_and_missed_by_all_who_map_the_file(
    libraries: Libraries, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mapped, told = storm_rests(libraries, monkeypatch, tmp_path / "a")
    room: list[bool] = [False] * 3

    def put(_: str, work: Callable[[], None]) -> bool:
        if found := room.pop() if room else True:
            work()
        return found

    libraries.by_owner.put = put
    mapped.add("/calm")
    for _ in range(2):
        libraries.rest_again()
        assert blind_in(told[-1]) == ["/calm", "/storm"]
    libraries.rest(Rest({}, 2))
    assert blind_in(told[-1]) == ["/calm", "/storm"]
    libraries.rest_again()
    *_, gap, back = told
    assert isinstance(gap, AttachGap)
    assert (gap.tenant, blind_in(back)) == ("/calm", [])
    assert not libraries.resting


def test_probes_that_the_kernel_refuses_to_bring_back_are_missed_until_it_does_not(
    libraries: Libraries, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mapped, told = storm_rests(libraries, monkeypatch, tmp_path / "a")
    monkeypatch.setattr(libraries, "_prober", Refusing(1, TooMany("of them")))
    mapped.add("/calm")
    libraries.rest_again()
    assert blind_in(told[-1]) == ["/calm", "/storm"]
    libraries.rest_again()
    assert blind_in(told[-1]) == []
