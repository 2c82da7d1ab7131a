"""``cotenant explain``: findings as text and as JSON."""

import contextlib
import io
import json
import re
import shlex
import subprocess

import pytest

from cotenant.views.cli import main
from tests.serving import serving
from tests.virtual import scenarios
from tests.virtual.device import START_NS


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
    assert "next: cotenant ask late_ranks --tenant job/worker-2" in out
    assert "next: cotenant ask memory_growth --tenant ml/serve" in out
    assert "no rows of cuda_events, host_events, io_events" in " ".join(out.split())
    assert max(len(line) for line in out.splitlines() if "next: " not in line) <= 80


def test_a_program_gets_exact_numbers(host, capsys):
    _, out, _ = _said(capsys, "--store", str(host), "--tenant", "ml/serve", "--json")
    found = json.loads(out)
    assert found["tenant"] == "ml/serve"
    assert [finding["kind"] for finding in found["findings"]] == ["memory leak"]
    assert set(found["findings"][0]) == {
        "kind", "victim", "culprit", "share", "confidence", "title", "evidence", "next", "base",
        "cost_ns", "lasts",
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


ODD = "team blue/llama-finetune-7b-worker-0 it's \x1b[2J\n-$(id)"


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """A host whose tenant chose its name to be awkward, and whose store lies in such a place."""
    scenario = scenarios.Scenario(tmp_path_factory.mktemp("odd host") / "a store", 31)
    scenario.collectives()
    scenario.memory(leak=1 << 29, leaking=(ODD, "-.slice"))
    return scenario.done(None, [], None).root


def _next(out):
    return [line.partition("next: ")[2] for line in out.splitlines() if "next: " in line]


def _split(command):
    """The words that a shell makes of it."""
    done = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True, text=True
    )
    return done.stdout.split("\0")[:-1]


def test_the_next_command_asks_the_same_store_about_that_tenant_and_time(odd, capsys):
    code, out, err = _said(capsys, "--store", str(odd), "--from", "2026-09-21 14:13:20")
    assert (code, err) == (0, "")
    commands = [_split(command) for command in _next(out)]
    same = ["--store", str(odd), "--from", "2026-09-21 14:13:20"]
    assert sorted(commands) == [
        ["cotenant", "ask", "memory_growth", "--tenant", ODD, *same],
        ["cotenant", "ask", "memory_growth", "--tenant=-.slice", *same],
    ]
    for command in commands:
        with contextlib.redirect_stdout(io.StringIO()):
            assert main(command[1:]) == 0


def test_a_program_gets_the_next_command_whole_too(host, capsys):
    _, out, _ = _said(capsys, "--store", str(host), "--since", "36500d", "--json")
    commands = [shlex.split(finding["next"]) for finding in json.loads(out)["findings"]]
    assert len(commands) == 2
    assert all(c[-4:] == ["--store", str(host), "--since", "36500d"] for c in commands)


def test_the_page_shows_the_next_command_whole_too(host):
    with serving(host) as served:
        findings = served.request("/api/findings").json["findings"]
    commands = [shlex.split(finding["next"]) for finding in findings]
    assert len(commands) == 2
    assert all(c[-2:] == ["--store", str(host)] for c in commands)


def test_the_store_that_would_be_read_anyhow_is_not_repeated(host, capsys, monkeypatch):
    monkeypatch.setenv("COTENANT_STORE", str(host))
    _, out, _ = _said(capsys, "--tenant", "ml/serve")
    assert _next(out) == ["cotenant ask memory_growth --tenant ml/serve"]


def test_a_tenants_name_cannot_write_to_the_terminal(odd, capsys):
    code, out, _ = _said(capsys, "--store", str(odd))
    assert code == 0
    assert out.replace("\n", "").isprintable()
    assert ODD.replace("\x1b", "\ufffd").replace("\n", "\ufffd") in " ".join(out.split())
    code, _, err = _said(capsys, "--store", str(odd), "--tenant", ODD + "x")
    assert (code, err.count("\n"), err[:-1].isprintable()) == (1, 1, True)


def test_a_short_window_is_no_all_clear_and_has_what_the_whole_recording_says(tmp_path, capsys):
    scenarios.noisy_neighbour(tmp_path / "noisy", 1)
    whole = ("--store", str(tmp_path / "noisy"))
    assert "ml/train" in _said(capsys, *whole)[1]
    began = START_NS + 700_000_000
    code, out, _ = _said(capsys, *whole, "--from", str(began), "--to", str(began + 40_000_000))
    said = " ".join(out.split())
    assert code == 0
    assert "nothing stands out" not in said
    assert "too few samples in this window to say whether" in said
    assert re.search(r"in the whole recording: \d\.\d\d times as long", said)
