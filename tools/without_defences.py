"""Remove each defence against a tenant in a copy of the tree, and see that its test fails there.

A test that holds with and without what it is about shows nothing.

usage: without_defences.py [PART OF A NAME]   (from the root of the checkout)
"""

import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

COPY: Final = Path("build/without_defences")
RECORD: Final = (
    ".venv/bin/python", "-m", "cotenant", "record", "--quiet", "--for", "1s", "--store", "build/s",
)  # fmt: skip


@dataclass(frozen=True)
class Defence:
    """Some text of a file, what stands there without it, and tests that must fail then."""

    name: str
    file: str
    text: str
    without: str
    tests: tuple[str, ...]


DEFENCES: Final = (
    Defence(
        "the budget rests only what nobody else has mapped",
        "src/cotenant/agent/helper/libraries/resting.py",
        "        if len(tenants) != 1:\n            return None\n        (tenant,) = tenants\n",
        "        tenant = next(iter(tenants & self._asked.keys()), '')\n",
        (
            "tests/kernel/test_budget.py::"
            "test_a_storm_on_a_driver_that_others_map_costs_them_nothing_and_is_counted",
        ),
    ),
    Defence(
        "a tenant has so many cgroups, and no more are told",
        "bpf/common/birth.bpf.h",
        "\tif (mine->used[QUOTA_cgroups] >= TENANT_CGROUPS ||\n",
        "\treturn 1;\n\tif (mine->used[QUOTA_cgroups] >= TENANT_CGROUPS ||\n",
        (
            "tests/kernel/test_quotas.py::"
            "test_a_tenant_that_makes_cgroups_without_end_has_a_bounded_number_of_rows",
        ),
    ),
    Defence(
        "big files are read by a process of their own",
        "src/cotenant/agent/helper/files/elf_files.py",
        "_LIGHT: Final = 8 << 20",
        "_LIGHT: Final = 1 << 60",
        ("tests/kernel/test_hostile_files.py::test_libraries_with_symbols_by_the_million",),
    ),
    Defence(
        "a tenant's files take its own share of the readers' time",
        "src/cotenant/agent/helper/files/readers.py",
        "        account = self._account(tenant)\n",
        '        account = self._account("")\n',
        ("tests/kernel/test_hostile_files.py::test_libraries_with_symbols_by_the_million",),
    ),
    Defence(
        "a tenant's names take its own share of their ring",
        "bpf/common/share.bpf.h",
        "bool_t may = bpf_ringbuf_query(",
        "bool_t may = 1 || bpf_ringbuf_query(",
        (
            "tests/kernel/test_quotas.py::test_a_flood_of_names_leaves_its_neighbour_his_own",
            "tests/kernel/test_filled_maps.py::"
            "test_a_flood_of_communicators_leaves_its_neighbour_his_graphs",
        ),
    ),
    Defence(
        "a tenant has as many entries of a map as are still free",
        "bpf/common/quota.bpf.h",
        "mine->used[in_array(quota, QUOTAS)] - freed_of(tenant, quota) + (__s64)spare >= free",
        "free + (__s64)spare <= 0",
        (
            "tests/kernel/test_quotas.py::test_a_tenant_of_many_cgroups_leaves_others_their_totals",
            "tests/kernel/test_quotas.py::"
            "test_what_a_tenant_forges_leaves_its_neighbour_memory_graphs_and_times",
            "tests/kernel/test_quotas.py::"
            "test_a_swarm_of_processes_leaves_its_neighbour_his_memory",
            "tests/kernel/test_overload.py::"
            "test_whoever_hoards_captures_keeps_nobody_from_theirs_and_from_their_budget",
        ),
    ),
    Defence(
        "what a tenant makes within its cgroup shares its part of the ring",
        "bpf/common/tenant.bpf.h",
        "\tfound.tenant = tenant_above(cgroup, hierarchy);\n",
        "\tfound.tenant = key;\n",
        ("tests/kernel/test_quotas.py::test_cgroups_within_a_tenant_share_its_part_of_the_ring",),
    ),
    Defence(
        "the silent make room for each other",
        "src/cotenant/views/web/connections.py",
        "        longest = min(among, key=lambda one: (one.is_known(), one.since))\n",
        "        longest = max(among, key=lambda one: (one.is_known(), one.since))\n",
        ("tests/views/test_silent_peers.py::test_a_browser_that_is_known_keeps_its_connection",),
    ),
    Defence(
        "a request has a deadline",
        "src/cotenant/views/web/connections.py",
        "            self._request_ends = self.loop.call_later(REQUEST_S, self.transport.abort)\n",
        "            return\n",
        ("tests/views/test_silent_peers.py::test_each_slow_request_ends_at_its_deadline",),
    ),
    Defence(
        "the recorder gives up what it no longer needs",
        "src/cotenant/agent/recorder/sandbox.py",
        '        "seccomp": refuse_calls(Role.RECORDER),\n',
        '        "seccomp": True,\n',
        ("tests/kernel/test_taken_over.py::test_nothing_is_read_written_signalled_run_or_gained",),
    ),
    Defence(
        "the helper answers only about processes that a probe reported",
        "src/cotenant/agent/helper/processes/reported.py",
        "        if entry is None:\n            return False\n",
        "        if entry is None:\n            return True\n",
        (
            "tests/kernel/test_taken_over.py::"
            "test_the_helper_tells_nothing_about_a_process_that_called_no_library",
        ),
    ),
    Defence(
        "a page of one tenant has that tenant's tables and no others",
        "src/cotenant/query/engine/guard.py",
        "    if strangers:\n",
        "    if False:\n",
        ("tests/views/test_security.py::test_a_bound_page_tells_no_definition_and_no_path",),
    ),
    Defence(
        "what cannot be printed is spelled out",
        "src/cotenant/printable.py",
        '    if "\\\\" in text:\n        text = _SPELLED.sub(_guarded, text)\n',
        "    return text\n",
        (
            "tests/views/test_hostile_names.py::"
            "test_csv_has_a_line_for_each_row_that_no_spreadsheet_runs",
            "tests/views/test_hostile_names.py::"
            "test_metrics_have_each_tenant_once_and_no_control_character",
        ),
    ),
    Defence(
        "a token that others can read is refused",
        "src/cotenant/views/cli/serve.py",
        "        if stat.S_IMODE(file.stat().st_mode) & _TOO_OPEN:\n",
        "        if False:\n",
        ("tests/views/test_serve.py::test_a_token_that_others_can_read_or_change_is_refused",),
    ),
    Defence(
        "a probe that came late is a hole",
        "src/cotenant/agent/recorder/blind_spots.py",
        "        reason = why.LATE if report.probed else why.NEVER\n",
        "        return\n",
        (
            "tests/kernel/test_holes.py::"
            "test_what_went_unseen_is_told_to_those_it_touches_and_to_nobody_else",
        ),
    ),
)


def apply(defence: Defence) -> None:
    """Write the file as it would be without the defence."""
    file = COPY / defence.file
    text = file.read_text()
    if text.count(defence.text) != 1:
        sys.exit(f"{defence.file} does not have once: {defence.text!r}")
    file.write_text(text.replace(defence.text, defence.without))


def run(*command: str) -> int:
    """Run this in the copy; what it prints is kept in a file."""
    with (COPY / "build/said.log").open("ab") as log:
        return subprocess.run(command, cwd=COPY, stdout=log, stderr=log, check=False).returncode


def copy_tree() -> None:
    """A clone of what is committed, set up."""
    shutil.rmtree(COPY, ignore_errors=True)
    subprocess.run(["git", "clone", "--quiet", ".", str(COPY)], check=True)
    (COPY / "build").mkdir()
    if run("make", "setup-tests"):
        sys.exit(f"cannot set up {COPY}: see build/said.log there")


def fails_without(defence: Defence) -> bool:
    """Whether each test of the defence fails without it; prints what came of each."""
    apply(defence)
    # What cannot record at all fails, too, and shows nothing.
    if run("make", "build") or run(*RECORD):
        sys.exit(f"cannot record without it: see build/said.log in {COPY}")
    all_failed = True
    for test in defence.tests:
        began = time.monotonic()
        code = run(".venv/bin/python", "-m", "pytest", "-q", "-x", test)
        if code not in (0, 1):
            sys.exit(f"cannot run {test}: see build/said.log in {COPY}")
        said = "fails, as it should" if code else "HOLDS"
        name = test.partition("::")[2]
        print(f"  {said} after {time.monotonic() - began:.0f} s: {name}", flush=True)
        all_failed &= code == 1
    run("git", "checkout", "--quiet", ".")
    return all_failed


def main() -> None:
    """Try each defence whose name has the given part, or all."""
    part = " ".join(sys.argv[1:])
    copy_tree()
    bad = []
    for defence in DEFENCES:
        if part in defence.name:
            print(f"without: {defence.name}", flush=True)
            if not fails_without(defence):
                bad.append(defence.name)
    if bad:
        sys.exit("tests that hold without the defence: " + "; ".join(bad))


if __name__ == "__main__":
    main()
