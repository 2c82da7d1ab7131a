"""Wrong usage of any verb: one line that says what is wrong, and exit code 2."""

import argparse
import contextlib
import io
import os
import re
import tomllib
from pathlib import Path

import pytest

from cotenant.errors import CotenantError, UsageError
from cotenant.query.text.time_syntax import duration_ns, moment_ns
from cotenant.views.cli import VERBS, demo, main
from cotenant.views.cli.commands import commands
from cotenant.views.web import server

MANY = "9" * 499
COUNT = "SELECT count(*) AS n FROM cuda_events"
SINCE = ("30s", "59s", "61s")
ROOT = Path(__file__).parents[2]


WRONG = [
    ("serve --port 70000", "70000 is not a port; write one from 0 to 65535"),
    ("serve --port -1", "-1 is not a port"),
    (f"serve --port {MANY}", "is not a port"),
    ("serve --as-root --address=", "--address is empty"),
    ("serve --token-file /nowhere/token", "No such file or directory; name another file"),
    ("top --once --window 0s", "'0s' is zero; write 90s, 5m or 2h"),
    (f"top --once --window {MANY}s", "is longer than 292 years"),
    (f"tenants --since {MANY}s", "is longer than 292 years"),
    ("tenants --since=", "'' is not a duration"),
    ("tenants --from=", "'' is not a time"),
    (f"tenants --to {MANY}", "is after the year 2262"),
    (f"tenants --to {MANY * 11}", "is after the year 2262"),
    ("tenants --from 2026-09-22 --to 2026-09-21", "--from 2026-09-22 is not before --to"),
    ("tenants --store=", "--store: empty path; name a directory"),
    ("tenants --bogus", "tenants: unknown argument --bogus; see `cotenant tenants --help`"),
    ("ask top_kernels limit=-1", "limit=-1: expected a whole number from 0 on"),
    (f"ask top_kernels limit={MANY}", f"limit={MANY}: expected a whole number from 0 on"),
    ("ask launch_rate step=0s", "step=0s: expected a duration above zero"),
    (f"ask launch_rate step={MANY}s", f"step={MANY}s: expected a duration above zero"),
    ("ask compare_tenants a=\udcff", "is not UTF-8; type it in UTF-8"),
    ("ask io_delay", "no question io_delay; did you mean io_delays"),
    ("sql \udcff", "is not UTF-8; type it in UTF-8"),
    ("sql", "the following arguments are required: SQL; see `cotenant sql --help`"),
    ("export bogus", "invalid choice: 'bogus'"),
    ("record --for 0s", "'0s' is zero"),
    ("record --for=", "'' is not a duration"),
    ("record --keep 0s", "'0s' is zero"),
    ("record --keep-rollups 0s", "'0s' is zero"),
    ("record --ring-bytes 3", "3 is not a power of two from 4k to 1g"),
    ("record --ring-bytes -4096", "is not a size"),
    (f"record --max-bytes {MANY * 11}t", "is not a size"),
    ("record --budget nan", "nan is not a percentage"),
    (f"record --budget-rest {MANY}s", "is longer than 292 years"),
    ("demo --for 0s", "'0s' is zero"),
    ("sim bogus", "invalid choice: 'bogus'"),
    ("rekord", "there is no command rekord; did you mean record?"),
    ("expalin", "there is no command expalin; did you mean explain?"),
    ("xyzzy", "there is no command xyzzy; `cotenant help` lists them"),
    ("help expalin", "there is no command expalin; did you mean explain?"),
    ("tenants --tenat x", "unknown argument --tenat x; did you mean --tenant?"),
    ("completion tcsh", "invalid choice: 'tcsh'"),
    ("ask top_kernels --follow --json", "--follow prints tables; do without --json"),
    ("sql --follow --format csv x", "--follow applies to --format table"),
    ("ask top_kernels --every 0s", "'0s' is zero"),
    ("sql x --timeout never", "'never' is not a duration"),
    ("doctor --jsno", "unknown argument --jsno; did you mean --json?"),
    ("health --within soon", "'soon' is not a duration"),
    ("explain --since 5", "'5' is not a duration"),
    ("explain now", "unknown argument now"),
    ("ship", "the following arguments are required: --to"),
    ("ship --once --to s3://", "names no bucket"),
    ("ship --once --to /tmp --bandwidth fast", "fast is not a"),
    ("import", "the following arguments are required: FILE"),
    ("import /nowhere/trace.json --compare", "cannot read /nowhere/trace.json"),
    ("pull --node a --from 1 --to 2", "the following arguments are required: --into"),
    ("pull --node a --from 2 --to 1 --into x", "is not before --to"),
]


@pytest.mark.parametrize(("words", "said"), WRONG, ids=[words[:40] for words, _ in WRONG])
def test_what_cannot_be_meant_is_one_line_and_exit_code_2(words, said, store, monkeypatch, capsys):
    monkeypatch.setenv("COTENANT_STORE", str(store))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("cotenant.agent.recorder.main.Recorder", None)  # Nothing gets that far.
    code = _left(words.split())
    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_no_command_is_left_out():
    assert {words.split()[0] for words, _ in WRONG} >= set(VERBS)


# What a command needs to be complete, so that an option is all that is wrong.
NEEDS = {
    "sql": ["SELECT 1"],
    "export": ["csv", "--force"],
    "ship": ["--once", "--to", "shipped"],
    "pull": ["--node", "node-a", "--from", "1", "--to", "2", "--into", "pulled"],
    "serve": ["--as-root", "--port", "0"],
    "top": ["--once"],
    "ask": ["top_kernels"],
    "import": ["/dev/null"],
}
NONSENSE = ("", MANY, "no\x1b\npe", "-1")


@pytest.mark.parametrize("command", commands(), ids=lambda command: command.name)
def test_nonsense_for_any_option_is_at_most_one_line(command, store, place, monkeypatch, capsys):
    """Whatever it says, and however it ends: it is no traceback."""
    monkeypatch.setenv("COTENANT_STORE", str(store))
    monkeypatch.chdir(place)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(server, "serve", lambda settings, listening: listening.close())
    for would_run in WOULD_RUN:
        monkeypatch.setattr(would_run, _understood)
    before = [command.name, *NEEDS.get(command.name, [])]
    for option in (option for option in command.options if option.names and option.value):
        for value in NONSENSE:
            code = _left([*before, f"{option.names[-1]}={value}"])
            err = capsys.readouterr().err
            assert code in (0, 1, 2), (option, value)
            assert code == 0 or err.count("\n") == 1, (option, value, err)
            assert "\x1b" not in err


WOULD_RUN = (
    "cotenant.views.cli.record._recorder",
    "cotenant.views.cli.demo._simulate",
    "cotenant.views.cli.doctor.run",
)


def _understood(*_, **__):
    raise CotenantError("it would run")


def _left(words):
    try:
        return main(words)
    except SystemExit as left:
        return left.code


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_examples(verb):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert _left([verb, "--help"]) == 0
    assert f"usage: cotenant {verb}" in out.getvalue()
    assert f"\n  cotenant {verb}" in out.getvalue().replace("  sudo cotenant", "  cotenant")


def test_the_version_is_that_of_the_package_its_objects_and_the_kernel(capsys):
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert left.value.code == 0
    told = (
        rf"cotenant {project['version']} \(objects [0-9a-f]{{12}}, Linux {os.uname().release}\)\n"
    )
    assert re.fullmatch(told, capsys.readouterr().out)


def test_a_tenant_of_no_name_is_nobody(cotenant):
    for words in (("explain",), ("ask", "top_kernels"), ("tenants",)):
        code, out, err = cotenant(*words, "--tenant", "")
        assert (code, out) == (1, "")
        assert err == "cotenant: there is no tenant ; see `cotenant tenants`\n"


def test_a_variable_that_is_empty_names_no_store(monkeypatch, capsys):
    monkeypatch.setenv("COTENANT_STORE", "")
    monkeypatch.setattr("cotenant.views.cli.DEFAULT_STORE", "/nowhere/store")
    assert main(["tenants"]) == 1
    assert capsys.readouterr().err.startswith("cotenant: no store at /nowhere/store; ")


@pytest.mark.parametrize(("variable", "store"), [("/nowhere/store", "/nowhere/store"), ("", None)])
def test_a_demo_goes_where_the_variable_says_else_to_a_store_of_its_own(
    monkeypatch, variable, store
):
    monkeypatch.setenv("COTENANT_STORE", variable)
    parser = argparse.ArgumentParser()
    demo.add_arguments(parser)
    assert parser.parse_args([]).store == store


def test_the_longest_times_are_still_times():
    assert duration_ns("106751d") == 106_751 * 86_400 * 10**9
    assert moment_ns("9223372036854775807") == 9_223_372_036_854_775_807
    with pytest.raises(UsageError):
        moment_ns("9223372036854775808")


@pytest.mark.parametrize(
    ("address", "another"), [("127.0.0.1", "--port"), ("192.0.2.1", "--address")]
)
def test_where_nobody_can_listen_the_option_to_change_is_named(tmp_path, address, another):
    with server.bound_socket(server.WebSettings(tmp_path, port=0)) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"choose another with {another}$"):
            server.bound_socket(server.WebSettings(tmp_path, address=address, port=port))


@pytest.mark.parametrize("table", ["cuda_events", "containers"])
def test_a_file_that_is_torn_is_named_with_what_to_do(cotenant, store, table):
    [file, *_] = sorted(store.glob(f"{table}/*/*/*.parquet"))
    file.write_bytes(b"torn")
    code, out, err = cotenant("tenants")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert str(file) in err
    assert err.endswith("; restore that file, or move it away and do without its rows\n")
    file.unlink()
    code, _, err = cotenant("tenants")
    assert code == 0
    assert "incomplete: 1 segments are missing" in err


def test_a_store_that_cannot_be_shown_yet_is_said_at_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(server, "serve", lambda settings, listening: listening.close())
    (tmp_path / "file").write_text("no store")
    assert main(["serve", "--as-root", "--port", "0", "--store", str(tmp_path / "file")]) == 0
    said = f"nothing to show yet: {tmp_path / 'file'} is a file, not a store; "
    assert capsys.readouterr().err == said + "name a directory with --store\n"


def test_an_export_makes_no_directory_that_was_mistyped(cotenant, tmp_path):
    for kind, name in (("perfetto", "trace"), ("csv", "tables")):
        output = tmp_path / "nowhere" / name
        code, out, err = cotenant("export", kind, "--output", str(output))
        assert (code, out) == (2, "")
        assert err.startswith(f"cotenant: there is no directory {output.parent}; ")
    assert not (tmp_path / "nowhere").exists()


def test_the_last_minute_of_a_recording_that_ended_is_its_own(cotenant):
    counts = {
        since: cotenant("sql", "--since", since, "--format", "csv", COUNT)[1] for since in SINCE
    }
    assert counts == {"30s": '"n"\n3\n', "59s": '"n"\n3\n', "61s": '"n"\n10\n'}
