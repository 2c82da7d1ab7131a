"""Shares of pairs against the device's own account: all at once, and in turns."""

import itertools

import pytest

from cotenant.query.engine.session import Session
from cotenant.query.questions.loader import find
from tests.virtual.quantities import Player, paired

MS = 1_000_000
PLAYERS = {
    "never idle": Player(20 * MS),
    "half": Player(4 * MS, 1, 4 * MS),
    "small": Player(0.5 * MS, 4, 0.2 * MS),
    "trains": Player(4 * MS, 5, 5 * MS),
    "seldom": Player(10 * MS, 2, 100 * MS),
}
# Four launches of one fill a turn now and then, and do not at other times.
LOOSER = {("half", "small", "turns"): 0.025}
SLICES = {"at once": 0, "turns": 2 * MS, "short turns": MS // 2}


@pytest.mark.parametrize("model", SLICES)
@pytest.mark.parametrize("pair", list(itertools.combinations(PLAYERS, 2)), ids="-".join)
def test_shares_are_what_the_device_counted(tmp_path, pair, model):
    store, true = paired(tmp_path / "store", [PLAYERS[name] for name in pair], SLICES[model])
    with Session(store) as session:
        rows = session.ask(find("gpu_use").render()).rows()
    found = {row["tenant"]: row["share"] for row in rows}
    assert found == pytest.approx(true, abs=LOOSER.get((*pair, model), 0.02))
    assert rows[0]["idle_share"] == pytest.approx(1 - sum(true.values()), abs=0.04)


@pytest.mark.parametrize("model", SLICES)
def test_processes_of_a_tenant_slow_each_other_and_their_work_is_not_more_for_that(tmp_path, model):
    players, tenants = [PLAYERS[name] for name in ("trains", "trains", "half")], "train train serve"
    store, true = paired(
        tmp_path / "store", players, SLICES[model], length=20_000 * MS, tenants=tenants.split()
    )
    with Session(store) as session:
        rows = session.ask(find("gpu_use").render()).rows()
        (ran,) = session.ask("select sum(launches) as n from spans where tenant = 'train'").rows()
    (row,) = [row for row in rows if row["tenant"] == "train"]
    assert row["work_ns"] == pytest.approx(float(ran["n"]) * 4 * MS, rel=0.2)
    assert row["share"] == pytest.approx(true["train"], abs=0.03)
