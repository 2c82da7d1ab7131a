"""Each kind of finding names a command, and that shows the number that the finding states."""

import contextlib
import io
import json
import shlex

import pytest

from cotenant.query.findings.finding import milliseconds
from cotenant.views.cli import main
from tests.virtual import scenarios

MIB = 1 << 20
# Of each kind: how the finding puts a number into words that its next command has in a column.
STATED = {
    "noisy neighbour": lambda row: f"takes {row['slowdown']:.2f} times as long",
    "straggler rank": lambda row: f"in {row['last']:,} of {row['collectives']:,} collectives",
    "CPU starvation": lambda row: f"had a CPU for {milliseconds(row['waited_ns'])} while",
    "shared disk": lambda row: f"delayed by {milliseconds(row['delayed_ns'])}, added up",
    "lossy link": lambda row: f"{row['retransmits']:,} of them to {row['peer']}",
    "memory leak": lambda row: f"holds {row['growth_bytes'] / MIB:,.0f} MiB more than at first",
    "cold start": lambda row: f"{milliseconds(row['until_first_launch_ns'])}",
    "hung collective": lambda row: f"under way for {milliseconds(row['under_way_ns'])}",
}


def answer(*words):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        assert main([*words, "--json"]) == 0
    return json.loads(out.getvalue())


@pytest.mark.parametrize("scenario", scenarios.SICK, ids=lambda scenario: scenario.__name__)
def test_the_next_command_shows_the_number_that_a_finding_states(tmp_path, scenario):
    host = scenario(tmp_path / "store", 3)
    first = answer("explain", "--store", str(host.root))["findings"][0]
    assert first["kind"] == host.kind
    rows = answer(*shlex.split(first["next"])[1:])["rows"]
    said = " ".join([first["title"], *first["evidence"]])
    assert STATED[host.kind](rows[0]) in said, (said, rows[0])


def test_no_kind_of_finding_is_left_out(tmp_path):
    assert len(STATED) == len(scenarios.SICK)
