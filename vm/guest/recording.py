"""One recording of everything, with tenants whose every act is known, compared exactly."""

import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cotenant.query.engine.session import Session
from vm.guest import tenants
from vm.guest.host import COTENANT, without_sys_admin

_START_S: Final = 600
_STOP_S: Final = 300
_STACKS: Final = 6000  # Characters.


@dataclass
class Recorder:
    """A `cotenant record` in the guest."""

    store: Path
    options: tuple[str, ...] = ()
    admin: bool = True
    process: "subprocess.Popen[bytes] | None" = None
    errors: Path = field(default_factory=lambda: Path("/root/record.stderr"))

    def start(self) -> str | None:
        """Wait until it records; what it said if it does not."""
        # On an emulated CPU programs take so long that the budget would leave out rows.
        options = ("--quiet", "--kernel-budget", "off", *self.options)
        command = [*COTENANT, "record", "--store", str(self.store), *options]
        if not self.admin:
            command = without_sys_admin(command)
        with self.errors.open("wb") as stream:
            traced = {**os.environ, "PYTHONFAULTHANDLER": "1"}
            self.process = subprocess.Popen(command, stderr=stream, env=traced)
        deadline = time.monotonic() + _START_S
        while not self.errors.read_text().startswith("recording"):
            if self.process.poll() is not None or time.monotonic() > deadline:
                return self.errors.read_text()
            time.sleep(0.1)
        return None

    def rights(self) -> dict[str, str]:
        """The user and the capabilities that it is left with."""
        assert self.process is not None
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        told = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        return {name: told[name] for name in ("Uid", "CapEff", "CapPrm", "CapBnd")}

    def stop(self) -> int:
        """End it as a user would; its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(_STOP_S)
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"does not stop: {self._where()}") from error

    def _where(self) -> str:
        """What every thread does, on one line."""
        assert self.process is not None
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        waits = [f"{_text(task / 'comm')} {_text(task / 'wchan')}" for task in tasks]
        self.process.send_signal(signal.SIGABRT)
        self.process.wait(_STOP_S)
        stacks = self.errors.read_text(errors="replace")[-_STACKS:]
        return " | ".join((*waits, *stacks.splitlines()))


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return "?"


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Record, and compare what is stored with what was done."""
    recorder = Recorder(Path("/root/store"), tuple(job.get("options", ())), job.get("admin", True))
    acts = tenants.all_of(job)
    for act in acts:
        act.prepare()
    began = time.monotonic()
    refusal = recorder.start()
    started_s = time.monotonic() - began
    if refusal is not None:
        code = recorder.process.poll() if recorder.process else None
        return {"refused": refusal, "code": code}
    try:
        rights = recorder.rights()
        for act in acts:
            act.begin()
        for act in acts:
            act.end()
    finally:
        code = recorder.stop()
    notices = recorder.errors.read_text().splitlines()[1:]
    told = {"code": code, "notices": notices, "started_s": started_s, "rights": rights}
    return told | compare(recorder.store, acts)


def compare(store: Path, acts: list[tenants.Act]) -> dict[str, Any]:
    """Each act's truth beside what the store says."""
    with Session(store) as session:

        def ask(sql: str) -> list[dict[str, Any]]:
            return session.ask(sql).table.to_pylist()

        compared = [found for act in acts for found in act.compare(ask)]
        row = ask("select * from sessions")[0]
        losses = ask(
            "select family, sum(seen) as seen, sum(stored) as stored, sum(shed) as shed, "
            "sum(lost) as lost from losses group by family order by family"
        )
    return {
        "compared": compared,
        "session": json.loads(json.dumps(row, default=str)),
        "losses": json.loads(json.dumps(losses, default=str)),
    }
