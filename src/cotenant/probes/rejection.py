"""Why the kernel rejects a program, in one line, from the logs of libbpf and the verifier."""

import errno
import os
import re
from dataclasses import dataclass
from typing import Final

_PROGRAM: Final = re.compile(r"^(?:libbpf: )?prog '(\w+)': BPF program load failed", re.M)
_LOG: Final = re.compile(r"-- BEGIN PROG LOAD LOG --\n(.*?)(?:-- END PROG LOAD LOG --|\Z)", re.S)
_SOURCE: Final = re.compile(r"^; (.+)$", re.M)
# Lines of a log that give no reason: instructions, registers, statistics.
_TRACE: Final = re.compile(
    r"^(\d+: |; |\s|from \d+ to|processed |verification time|stack depth|max_states|"
    r"mark_precise|last_idx|regs=|parent |func#|caller:|callee:|arg#\d+ reference type)"
)
_NO_HOOK: Final = re.compile(
    r"(?:failed to find kernel BTF type ID of|unknown kernel BTF type ID) '(\S+)'"
)
_NO_FUNCTION: Final = re.compile(r"extern \(func ksym\) '(\w+)'")
_NO_FIELD: Final = re.compile(r"<invalid CO-RE relocation>|invalid func unknown#195896080")
_VMLINUX: Final = "/sys/kernel/btf/vmlinux"


@dataclass(frozen=True, slots=True)
class Rejection:
    """What was refused, where in its source, and why."""

    what: str
    reason: str
    source: str = ""

    def __str__(self) -> str:
        where = f", at `{self.source}`" if self.source else ""
        return f"{self.what}: {self.reason}{where}"


def read_rejection(stem: str, number: int, said: str) -> Rejection:
    """What libbpf said when an object did not load, and the error that it ended with."""
    if not os.path.exists(_VMLINUX):
        return Rejection("BPF programs", f"this kernel has no BTF (no {_VMLINUX})")
    program = _PROGRAM.findall(said)
    name = f"BPF program {program[-1]}" if program else f"BPF object {stem}"
    log = _LOG.findall(said)
    if log and (reason := _reason(log[-1])):
        return Rejection(name, reason, _source(log[-1]))
    if missing := _NO_HOOK.search(said):
        return Rejection(name, f"this kernel has no {missing[1]}")
    if missing := _NO_FUNCTION.search(said):
        return Rejection(name, f"this kernel has no function {missing[1]} as it is called there")
    if number in (errno.EPERM, errno.EACCES) and not log:
        return Rejection(name, "not permitted; it needs root with CAP_BPF and CAP_PERFMON")
    return Rejection(name, _last_words(said) or os.strerror(number))


def _reason(log: str) -> str | None:
    """The verifier's own last line that is neither code nor a count."""
    if _NO_FIELD.search(log):
        return "this kernel lacks a field that it reads"
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    reasons = [line for line in lines if not _TRACE.match(line)]
    return reasons[-1] if reasons else None


def _source(log: str) -> str:
    lines = _SOURCE.findall(log)
    return lines[-1].strip() if lines else ""


def _last_words(said: str) -> str | None:
    lines = [line.removeprefix("libbpf: ") for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith("failed to load object")]
    return telling[-1] if telling else None
