"""Two stores compared: what changed, for whom."""

import json

import pytest

from cotenant.views.cli import main
from tests.unit.query.conftest import Recorded
from tests.virtual.device import START_NS
from tests.virtual.store import VirtualStore

MS = 1_000_000


def _store(root, seconds, kernels, image):
    """So many launches a second of each kernel, each so long."""
    store = VirtualStore(root)
    store.tenant("ml/train", image=image)
    store.tenant("ml/serve", image="serve:1")
    for tenant, kernel, ns in kernels:
        for at in range(10 * seconds + 1):
            row = {"timestamp_ns": START_NS + at * 100 * MS, "op": "launch", "result": 0}
            row |= {"api": "cuLaunchKernel", "kernel_name": kernel, "duration_ns": ns}
            store.add("cuda_events", tenant, row)
    return store.write()


@pytest.fixture
def stores(tmp_path):
    steady = [("ml/serve", "decode", 10_000)]
    before = _store(tmp_path / "a", 10, [*steady, ("ml/train", "gemm", 5_000)], "train:1")
    slower = [("ml/train", "gemm", 9_000), ("ml/train", "extra", 2_000)]
    return before, _store(tmp_path / "b", 5, [*steady, *slower], "train:2")


def test_what_changed_comes_first_and_says_for_whom(stores, capsys):
    before, after = stores
    words = ["compare_windows", "--store", str(after), "--against", str(before), "--json"]
    assert main(["ask", *words]) == 0
    first, second, last = json.loads(capsys.readouterr().out)["rows"]
    assert (first["tenant"], first["kernel_name"], first["ratio"]) == ("ml/train", "gemm", 1.8)
    assert (first["image_before"], first["image_after"]) == ("train:1", "train:2")
    assert (first["calls_before"], first["calls_after"]) == (101, 51)
    assert (second["kernel_name"], second["before_ns"], second["after_ns"]) == ("extra", None, 2000)
    # As long, it would have spent as much.
    assert (last["tenant"], last["ratio"]) == ("ml/serve", 1.0)
    assert abs(last["change_ns"]) < 0.02 * 51 * 10_000


def test_a_tenant_and_a_limit_narrow_it(stores, capsys):
    before, after = stores
    words = ["compare_windows", "limit=1", "--tenant", "ml/serve", "--store", str(after)]
    assert main(["ask", *words, "--against", str(before), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["tenant"] == "ml/serve"


@pytest.mark.parametrize("words", [["top_kernels"], ["compare_windows", "at=2026-09-21T14:13:20"]])
def test_it_goes_with_one_question_alone(stores, capsys, words):
    before, after = stores
    assert main(["ask", *words, "--store", str(after), "--against", str(before)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_it_lacks_what_either_store_lacks(tmp_path, capsys):
    stores = []
    for name, lost in (("before", 90), ("after", 0)):
        store = Recorded(tmp_path / name)
        store.containers()
        store.launches(11, 7)
        store.losses(11, seen=7 + lost, lost=lost)
        store.seal()
        store.writer.close()
        stores.append(str(store.root))
    for before, after in (stores, reversed(stores)):
        words = ["ask", "compare_windows", "--store", after, "--against", before]
        assert main([*words, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["complete"] is False
        assert found["lacks"] == ["incomplete: 90 of 104 cuda events were lost"]
        assert main(words) == 0
        assert "complete" not in capsys.readouterr().out
