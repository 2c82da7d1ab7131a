"""Whether a cell is exact, lacks what was declared, or is wrong."""

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final

from vm.cells import Cell
from vm.machine import Outcome

# A program that is preempted within itself does not run again: on an emulated CPU that is likely.
_LEFT_OUT: Final = re.compile(r"cotenant: (\w+) events of .* missing for .*: runs left out by the")


@dataclass(slots=True)
class Verdict:
    """What a cell showed."""

    cell: str
    release: str
    good: bool = True
    words: list[str] = field(default_factory=list)  # What is wrong.
    method: str | None = None
    cost_ns: int | None = None
    exact: list[str] = field(default_factory=list)  # Tables.
    lacks: dict[str, str] = field(default_factory=dict)  # Tables and what was declared.
    partly: list[str] = field(default_factory=list)  # Hooks that were declared missing.
    seconds: float = 0

    def wrong(self, words: str) -> None:
        """One more thing that is."""
        self.good = False
        self.words.append(words)


def judge(cell: Cell, release: str, outcome: Outcome) -> Verdict:
    """Read what the guest wrote."""
    verdict = Verdict(cell.name, release, seconds=round(outcome.seconds))
    for line in outcome.trouble[:3]:
        verdict.wrong(f"the kernel said: {line}")
    result = outcome.result
    if result is None:
        verdict.wrong("the guest ended without a word: " + outcome.console[-300:].strip())
        return verdict
    if "error" in result:
        verdict.wrong(result["error"].strip().splitlines()[-1])
    for name, check in _CHECKS.items():
        if name in result:
            check(cell, result[name], verdict)
    return verdict


def _doctor(cell: Cell, found: dict[str, Any], verdict: Verdict) -> None:
    told = found["all"]
    if cell.kernel.refused is not None:
        text = " ".join(check["found"] for check in told["checks"])
        if told["code"] != 3 or cell.kernel.refused not in text:
            verdict.wrong(f"doctor ends with {told['code']} and does not say why: {text[-300:]}")
        return
    if told["code"]:
        failing = [c["found"] for c in told["checks"] if c["needed"] and not c["holds"]]
        verdict.wrong(f"doctor ends with {told['code']}: {'; '.join(failing)} {told['errors']}")
    without = found["without SYS_ADMIN"]
    words = " ".join(check["found"] for check in without["checks"])
    # Where only perf events attach, distributions want that capability: that must be said.
    if without["code"] and "ermission denied" not in words:
        verdict.wrong(f"doctor without SYS_ADMIN ends with {without['code']}: {words[-300:]}")


def _record(cell: Cell, found: dict[str, Any], verdict: Verdict) -> None:
    if "refused" in found:
        _refused(cell, found, verdict)
        return
    notes = json.loads(found["session"]["notes"])
    verdict.method = found["session"]["attach_method"]
    verdict.cost_ns = notes.get("call_cost_ns")
    for hook, words in notes.get("hooks_refused", {}).items():
        if "not recorded: no " in words:
            family = words.split("not recorded: no ")[1].split(" events")[0]
            verdict.lacks[f"{family}_events"] = words
        else:
            verdict.partly.append(f"{hook}: {words}")
    if found["code"]:
        verdict.wrong(f"record ended with {found['code']}: {found['notices']}")
    user, *capabilities = found["rights"].values()
    if "0" in user.split() or any(int(each, 16) for each in capabilities):
        verdict.wrong(f"the recorder is left with {found['rights']}")
    left_out = {match[1] for text in found["notices"] if (match := _LEFT_OUT.match(text))}
    for each in found["compared"]:
        table = each["table"]
        if table in verdict.lacks:
            continue
        if not each["equal"] and table.removesuffix("_events") in left_out:
            verdict.lacks[table] = f"{each['what']}: the kernel left out runs, and that was told"
        elif not each["equal"]:
            verdict.wrong(f"{each['what']}: {each['done']} done, {each['stored']} stored")
        elif table not in verdict.exact:
            verdict.exact.append(table)
    verdict.exact = [table for table in verdict.exact if table not in verdict.lacks]
    if bad := [family for family in found["losses"] if int(family["lost"]) or int(family["shed"])]:
        verdict.wrong(f"lost: {bad}")


def _refused(cell: Cell, found: dict[str, Any], verdict: Verdict) -> None:
    """A refusal is right where it was expected, or where the missing right is named."""
    words = found["refused"].strip()
    if "\n" in words:
        verdict.wrong(f"a refusal of more than one line: {words}")
    expected = cell.kernel.refused or (
        "ermission denied" if not cell.job.get("admin", True) else None
    )
    if found["code"] != 3 or expected is None or expected not in words:
        verdict.wrong(f"record ends with {found['code']}: {words}")
    verdict.lacks["everything"] = words


def _canary(cell: Cell, found: dict[str, Any], verdict: Verdict) -> None:
    for what, counts in found.items():
        if isinstance(counts, list) and "unguarded" not in what:
            if counts[1]:
                verdict.wrong(f"canary, {what}: {counts[1]} of {counts[0]} runs corrupted")
            if not counts[0]:
                verdict.wrong(f"canary, {what}: it never ran")
    verdict.words.append(f"canary: {found}")


def _storm(cell: Cell, found: dict[str, Any], verdict: Verdict) -> None:
    if not found.get("equal"):
        verdict.wrong(f"storm: {found}")
    else:
        verdict.words.append(f"storm: {found['called']} calls, {found['stored']} rows")


def _demo(cell: Cell, found: dict[str, Any], verdict: Verdict) -> None:
    if found["code"] or not all(each["equal"] for each in found["compared"]):
        verdict.wrong(f"demo: {found}")


def _tests(cell: Cell, found: dict[str, Any], verdict: Verdict) -> None:
    if found["code"]:
        verdict.wrong(f"tests: {found['said'][-1500:]}")


_CHECKS = {
    "doctor": _doctor,
    "record": _record,
    "canary": _canary,
    "storm": _storm,
    "demo": _demo,
    "tests": _tests,
}
