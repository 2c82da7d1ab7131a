"""``python -m cotenant.identity``: one answer a line."""

import json
import subprocess
import sys


def test_the_command_answers_each_line_in_order_and_survives_bad_ones():
    lines = [
        '{"input_kind": "path", "input": "/system.slice/a.service"}',
        "not json",
        "[1]",
        '{"input_kind": "tree", "input": "/"}',
        '{"input_kind": "path", "input": 7}',
        '{"input_kind": "line", "input": "0::/system.slice/b.service"}',
        '{"input_kind": "line", "input": "0::/\\ud800"}',
    ]
    done = subprocess.run(
        [sys.executable, "-m", "cotenant.identity"],
        input="\n".join(lines).encode() + b"\n\xff\xfe{\n",
        capture_output=True,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]

    assert [answer.get("unit", "error") for answer in answers] == [
        "a.service",
        *["error"] * 4,
        "b.service",
        None,
        "error",
    ]
