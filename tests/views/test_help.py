"""Help that one can find: the list, completion in a shell, the manual page."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant.query.questions.loader import questions
from cotenant.views.cli import VERBS, main
from cotenant.views.cli.working import words
from tests.views.conftest import more_launches

ROOT = Path(__file__).parents[2]


def test_help_lists_every_command_and_tells_of_one(capsys):
    assert main(["help"]) == 0
    listed = capsys.readouterr().out
    assert all(line in listed for line in VERBS.values())
    with pytest.raises(SystemExit) as left:
        main(["help", "ask"])
    assert left.value.code == 0
    assert "usage: cotenant ask" in capsys.readouterr().out


def completed(tmp_path, *line):
    script = tmp_path / "cotenant.bash"
    script.write_text(
        subprocess.run(
            [sys.executable, "-m", "cotenant", "completion", "bash"],
            capture_output=True, text=True, check=True,
        ).stdout
    )  # fmt: skip
    code = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _cotenant; '
    code += 'printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(
        ["bash", "-c", code, "bash", script, *line], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_commands_questions_options_and_values(tmp_path):
    assert completed(tmp_path, "cotenant", "ex") == ["explain", "export"]
    assert completed(tmp_path, "cotenant", "ask", "io") == ["io_delays"]
    assert set(questions()) <= set(completed(tmp_path, "cotenant", "ask", ""))
    assert completed(tmp_path, "cotenant", "tenants", "--ve") == ["--vertical"]
    assert completed(tmp_path, "cotenant", "sql", "--format", "p") == ["parquet"]


@pytest.mark.parametrize(("shell", "sign"), [("zsh", "#compdef cotenant"), ("fish", "complete -c")])
def test_other_shells_are_told_the_same(shell, sign, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert sign in script
    assert all(word in script for word in (*VERBS, *questions(), "vertical", "parquet"))


def test_the_manual_page_is_up_to_date():
    done = subprocess.run(
        [sys.executable, "tools/gen_man.py", "--check"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_a_serve_of_nobody_is_refused(cotenant):
    code, out, err = cotenant("serve", "--as-root", "--port", "0", "--tenant", "ml/tran")
    assert (code, out) == (1, "")
    assert err == "cotenant: there is no tenant ml/tran; did you mean ml/train?\n"


def test_an_answer_follows_the_recording(store):
    command = [sys.executable, "-u", "-m", "cotenant", "sql", "--follow", "--every", "100ms"]
    command += ["SELECT count(*) AS n FROM cuda_events", "--store", str(store)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert [process.stdout.readline() for _ in range(3)][2].strip() == "10"
        more_launches(store, 23)
        line = ""
        while line.strip() != "33":
            line = process.stdout.readline()
            assert line
        process.send_signal(signal.SIGINT)
        assert process.wait(30) in (-signal.SIGINT, 128 + signal.SIGINT)


def test_progress_says_how_much_and_how_long():
    assert words(3.2, None) == "working for 3 s; Ctrl-C stops"
    assert words(3.0, 0.25) == "25 % after 3 s, about 9 s to go; Ctrl-C stops"
