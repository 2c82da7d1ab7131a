"""Whether functions may be single-stepped: as asked, or as a trial tells."""

from pathlib import Path

import pytest

from cotenant.probes import features
from cotenant.probes.attach import Method
from cotenant.probes.features import Trial, choose_stepping
from cotenant.probes.function import Flag
from cotenant.probes.library import plan
from cotenant.probes.sites import Kind, Stepping
from cotenant.probes.tables import FUNCTIONS
from tests.kernel.beginnings import RESERVE, build_beginnings

MAKES_ROWS = Flag.OPERATION | Flag.ROW


@pytest.mark.parametrize(
    ("trial", "chosen"),
    [
        (Trial(None, 1000, 2000), Stepping.ROWS),
        (Trial(None, 1000, 2001), Stepping.NONE),
        (Trial("does not work"), Stepping.NONE),
    ],
)
def test_it_is_done_by_itself_only_where_it_costs_twice_as_much_at_most(
    trial: Trial, chosen: Stepping, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "attempt", lambda _: trial)
    assert choose_stepping("auto", Method.SESSION) is chosen
    assert choose_stepping("any", Method.SESSION) is Stepping.ALL
    assert choose_stepping("emulated", Method.SESSION) is Stepping.NONE


def test_by_itself_only_what_makes_rows_is_single_stepped(tmp_path: Path) -> None:
    names = ("cuInit", "cuGetProcAddress_v2", "cuMemAlloc_v2", "cuStreamQuery")
    library = build_beginnings(
        tmp_path / "libcuda.so.1", launch=RESERVE, more=dict.fromkeys(names, RESERVE)
    )
    with library.open("rb") as file:
        found = plan(file.fileno(), FUNCTIONS, Stepping.ROWS)
    assert found is not None
    stepped = {s for s in found.sites if found.sites[s].kind is Kind.STEPPED}
    placed = {p.function.symbol: p.function for p in found.placed if p.offset in stepped}
    assert placed.keys() & {"cuLaunchKernel", *names} == {
        "cuLaunchKernel", "cuMemAlloc_v2", "cuInit",
    }  # fmt: skip
    assert all(function.flags & MAKES_ROWS for function in placed.values())
    assert found.refused["cuGetProcAddress_v2"] == "would be single-stepped: starts with sub"
    assert found.stepped == len(stepped)
