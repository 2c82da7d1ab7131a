"""``python -m tests.unit.identity.path.fuzz COUNT [SEED]``: try to break the parser.

Mutated and composed paths must never raise, and no name that a tenant can make below
its own cgroup may change whose the cgroup is.
"""

import random
import sys
from collections.abc import Callable
from typing import Final

from cotenant.identity.path.model import Owner
from cotenant.identity.path.parser import parse_path
from cotenant.identity.path.patterns import PREFIXES, TRANSPARENT, WORDS
from cotenant.identity.path.procfile import parse_file, parse_line
from cotenant.identity.tenant import tenancy

_NOISE: Final = "/.-_:@\\\n\0 ()aA09zé\ud800%[]{}"


class Forge:
    """Makes components, paths and forgeries from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def hex(self, count: int) -> str:
        """Random hexadecimal digits."""
        return f"{self.random.getrandbits(count * 4):0{count}x}"

    def uid(self, separator: str = "-") -> str:
        """A random UUID."""
        return separator.join(self.hex(n) for n in (8, 4, 4, 4, 12))

    def component(self) -> str:
        """One component as some runtime, user or attacker would write it."""
        pick = self.random.randrange(24)
        if pick < 6:
            prefix = self.random.choice(list(PREFIXES))
            return f"{prefix}-{self.hex(64)}{self.random.choice(('', '.scope', '.service'))}"
        simple: dict[int, Callable[[], str]] = {
            6: lambda: self.hex(64),
            7: lambda: f"pod{self.uid()}",
            8: lambda: f"kubepods-burstable-pod{self.uid('_')}.slice",
            9: lambda: f"user-{self.random.randrange(9999)}.slice",
            10: lambda: f"user@{self.random.randrange(9999)}.service",
            11: lambda: f"job_{self.random.randrange(9999)}",
            12: lambda: "slurmstepd.scope",
            13: lambda: f"kubepods-pod{self.uid('_')}.slice:cri-containerd:{self.hex(64)}",
            14: lambda: f"lxc.payload.{self.hex(4)}",
            15: lambda: f"systemd-nspawn@{self.hex(4)}.service",
            16: lambda: f"machine-qemu\\x2d1\\x2d{self.hex(4)}.scope",
            17: lambda: f"{self.uid()}.task.scope",
            18: lambda: f"crio-conmon-{self.hex(64)}.scope",
            19: lambda: self.random.choice(("..", "system.slice", "machine.slice", "init.scope")),
            20: lambda: self.random.choice(sorted(TRANSPARENT)),
            21: lambda: f"{self.hex(32)}-{self.random.randrange(10**9)}",
            22: lambda: f"x{self.hex(3)}.service",
        }
        return simple.get(pick, lambda: self.random.choice(sorted(WORDS)))()

    def suffix(self) -> str:
        """A path of forged names below some cgroup."""
        parts = (self.component() for _ in range(self.random.randrange(1, 6)))
        return "".join(f"/{part}" for part in parts if part != "..")

    def base(self) -> str:
        """A cgroup that a host gives to a tenant."""
        number = self.random.randrange(1, 9999)
        uid = self.uid("_")
        return self.random.choice(
            (
                f"/docker/{self.hex(64)}",
                f"/{self.hex(64)}",
                f"/system.slice/docker-{self.hex(64)}.scope",
                f"/kubepods/burstable/pod{self.uid()}/{self.hex(64)}",
                f"/kubepods.slice/kubepods-pod{uid}.slice/crio-{self.hex(64)}.scope",
                f"/system.slice/containerd.service/kubepods-pod{uid}.slice:cri-containerd:"
                + self.hex(64),
                f"/machine.slice/libpod-{self.hex(64)}.scope",
                f"/libpod_parent/libpod-{self.hex(64)}",
                f"/tenant{number}/run{number}",
                f"/lxc.payload.c{number}",
                f"/lxc/c{number}",
                f"/ecs/{self.hex(32)}/{self.hex(64)}",
                f"/garden/{self.hex(8)}-{self.hex(4)}-{self.hex(4)}-{self.hex(4)}-{self.hex(4)}",
                f"/machine.slice/systemd-nspawn@m{number}.service/payload",
                f"/system.slice/slurmstepd.scope/job_{number}/step_0/user/task_0",
                f"/slurm/uid_{number}/job_{number}/step_batch",
                f"/nomad.slice/share.slice/{self.uid()}.task.scope",
                f"/pbs_jobs.service/jobid/{number}.server",
                f"/htcondor/condor_execute_slot{number}",
                f"/system.slice/jupyter-u{number}-singleuser.service",
                f"/user.slice/user-{number}.slice/user@{number}.service",
                f"/user.slice/user-{number}.slice/session-4.scope",
            )
        )

    def mutate(self, text: str) -> str:
        """The text with a few characters changed, cut out or doubled."""
        for _ in range(self.random.randrange(1, 5)):
            at = self.random.randrange(len(text) + 1)
            kind = self.random.randrange(4)
            if kind == 0:
                text = text[:at] + self.random.choice(_NOISE) + text[at:]
            elif kind == 1:
                text = text[:at] + text[at + self.random.randrange(1, 9) :]
            elif kind == 2:
                text = text[:at] + self.random.choice(_NOISE) + text[at + 1 :]
            else:
                text = text[:at] + text[max(0, at - 70) :]
        return text


def tenant_of(path: str) -> tuple[str, str]:
    """The tenant and container id that a path alone gives."""
    found = tenancy(parse_path(path), path=path)
    return found.tenant, found.container_id


def attempt(forge: Forge) -> str | None:
    """One round: what is wrong, or None."""
    base = forge.base()
    suffix = forge.suffix()
    if tenant_of(base) != tenant_of(base + suffix):
        return f"forged: {base!r} + {suffix!r}: {tenant_of(base)} became {tenant_of(base + suffix)}"
    if parse_path(base).owner in (Owner.ROOT, Owner.PATH):
        return f"unowned: {base!r}"
    text = forge.mutate(base + suffix)
    parse_path(text)
    parse_path(text, mounted=True).as_json()
    parse_line(forge.mutate(f"0::{text}"))
    parse_file(forge.mutate(f"4:memory:{text}\n0::{base}\n"))
    return None


def main(arguments: list[str]) -> int:
    """Run as many rounds as asked for; 1 at the first finding."""
    count = int(arguments[0]) if arguments else 100_000
    forge = Forge(int(arguments[1]) if len(arguments) > 1 else 0)
    for done in range(count):
        if finding := attempt(forge):
            sys.stderr.write(f"after {done}: {finding}\n")
            return 1
    sys.stdout.write(f"{count} rounds, nothing found\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
