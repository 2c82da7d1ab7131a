"""One guest, from its boot to its last word."""

import json
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from vm import BUILD, ROOT

_EXCHANGE_BYTES: Final = 64 << 20
_MEMORY: Final = "3G"
# What a kernel says when something in it went wrong.
_TROUBLE: Final = (
    "BUG:", "WARNING:", "Oops:", "Kernel panic", "general protection", "unable to handle", "RIP:",
    "stack guard page", "soft lockup", "rcu: INFO", "INFO: task",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Boot:
    """How a guest is started."""

    image: Path
    initramfs: Path
    root: Path
    job: dict[str, Any]  # What it is to do; see vm/guest.
    command_line: str = ""
    cpus: int = 1
    seconds: float = 900


@dataclass(slots=True)
class Outcome:
    """What became of it."""

    result: dict[str, Any] | None  # None if it never said anything: it crashed, or took too long.
    console: str
    seconds: float
    trouble: list[str] = field(default_factory=list)


def run(boot: Boot, name: str) -> Outcome:
    """Boot, wait for the end, and read what the guest wrote."""
    place = BUILD / "runs"
    place.mkdir(parents=True, exist_ok=True)
    exchange, console = place / f"{name}.exchange", place / f"{name}.console"
    with exchange.open("wb") as file:
        file.write(json.dumps(boot.job).encode() + b"\0")
        file.truncate(_EXCHANGE_BYTES)
    # A disk that nobody uses but the tenants of the guest.
    scratch = place / f"{name}.scratch"
    with scratch.open("wb") as file:
        file.truncate(_EXCHANGE_BYTES)
    began = time.monotonic()
    process = subprocess.Popen(
        _command(boot, exchange, scratch, console), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        _, errors = process.communicate(timeout=boot.seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        _, errors = process.communicate()
    seconds = time.monotonic() - began
    text = console.read_text(errors="replace") if console.exists() else errors.decode()
    result = _result(exchange)
    exchange.unlink()
    scratch.unlink()
    said = text + ("\n".join(result.get("dmesg", [])) if result else "")
    trouble = [line.strip() for line in said.splitlines() if any(t in line for t in _TROUBLE)]
    return Outcome(result, text, seconds, list(dict.fromkeys(trouble)))


def _result(exchange: Path) -> dict[str, Any] | None:
    with exchange.open("rb") as file:
        content = file.read().partition(b"\0")[0]
    told: dict[str, Any] = json.loads(content)
    return told if "done" in told else None


def _command(boot: Boot, exchange: Path, scratch: Path, console: Path) -> list[str]:
    guest = ROOT / "vm/guest/init.sh"
    # An emulated CPU stands still when the host has no time for it: that is no stall.
    patience = "rcupdate.rcu_cpu_stall_timeout=300 watchdog_thresh=60"
    strict = "panic=-1 oops=panic panic_on_warn=1"
    line = f"console=ttyS0 {strict} {patience} quiet mitigations=off guest={guest}"
    # Of two emulated CPUs, one may wait for the other for ever while the kernel patches its own
    # code (text_poke_bp_batch, when a tracepoint is first used).
    threads = "multi" if boot.cpus > 1 else "single"
    return [
        "qemu-system-x86_64", "-accel", f"tcg,tb-size=512,thread={threads}",
        "-cpu", "max,la57=off", "-smp", str(boot.cpus), "-m", _MEMORY,
        "-nographic", "-nodefaults", "-no-reboot", "-serial", f"file:{console}",
        "-kernel", str(boot.image), "-initrd", str(boot.initramfs),
        "-drive", f"file={boot.root},if=virtio,format=raw,snapshot=on",
        "-drive", f"file={exchange},if=virtio,format=raw,cache=unsafe",
        "-drive", f"file={scratch},if=virtio,format=raw,cache=unsafe",
        "-append", f"{line} {boot.command_line}",
    ]  # fmt: skip
