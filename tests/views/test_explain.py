"""``cotenant explain``: findings as text and as JSON."""

import json

import pytest

from cotenant.views.cli import main
from tests.virtual import scenarios


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    scenario = scenarios.Scenario(tmp_path_factory.mktemp("host") / "store", 29)
    scenario.collectives(late_rank=2)
    scenario.memory(leak=1 << 29)
    return scenario.done(None, [], None).root


def _said(capsys, *words):
    code = main(["explain", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_findings_are_numbered_with_victim_culprit_evidence_and_what_to_ask_next(host, capsys):
    code, out, err = _said(capsys, "--store", str(host))
    assert (code, err) == (0, "")
    assert out.splitlines()[0].startswith("1. ")
    assert "\n2. " in out
    assert "culprit job/worker-2 rank 2" in out
    assert "next: cotenant ask timeline --tenant job/worker-2" in out
    assert "next: cotenant ask memory_growth --tenant ml/serve" in out
    assert "not recorded: cuda_events, host_events, io_events" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80


def test_a_program_gets_exact_numbers(host, capsys):
    _, out, _ = _said(capsys, "--store", str(host), "--tenant", "ml/serve", "--json")
    found = json.loads(out)
    assert found["tenant"] == "ml/serve"
    assert [finding["kind"] for finding in found["findings"]] == ["memory leak"]
    assert set(found["findings"][0]) == {
        "kind", "victim", "culprit", "share", "confidence", "title", "evidence", "next",
    }  # fmt: skip


def test_a_tenant_that_is_well_is_told_so(host, capsys):
    _, out, _ = _said(capsys, "--store", str(host), "--tenant", "sys/cron")
    assert out.startswith("nothing stands out for sys/cron\n")


def test_a_tenant_that_does_not_exist_is_an_error_in_words(host, capsys):
    code, out, err = _said(capsys, "--store", str(host), "--tenant", "ml/sevre")
    assert (code, out) == (1, "")
    assert err == "cotenant: there is no tenant ml/sevre; did you mean ml/serve, ml/train?\n"


def test_losses_are_told_beside_the_findings(store, capsys):
    _, out, err = _said(capsys, "--store", str(store))
    assert "incomplete" in out
    assert err == "incomplete: 12 of 1,234 cuda events were lost\n"
