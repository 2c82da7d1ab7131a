"""Two network namespaces and a wire between them that loses what it is told to lose."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from uuid import uuid4

from tests.kernel.conftest import Cgroup


def ip(*words: str) -> None:
    """One ``ip`` command that must succeed."""
    subprocess.run(["ip", *words], check=True)


@dataclass(frozen=True)
class End:
    """One end of the wire."""

    namespace: str
    address: str
    address6: str

    def inside(self, *command: object) -> list[object]:
        """The command, to be run in this end's namespace."""
        return ["ip", "netns", "exec", self.namespace, *command]

    def run(self, *command: object, **options: object) -> subprocess.CompletedProcess[str]:
        """Run it now."""
        words = [str(word) for word in self.inside(*command)]
        return subprocess.run(words, check=True, text=True, capture_output=True, **options)

    def popen(self, cgroup: Cgroup, *command: object, **options: object) -> subprocess.Popen[str]:
        """Start it in a cgroup."""
        return cgroup.popen(self.inside(*command), **options)

    def counter(self, name: str) -> int:
        """A counter of the namespace's own network stack."""
        lines = self.run("nstat", "--zeros", "--ignore", "--noupdate", name).stdout.splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith(name)))

    def lose(self, percent: int) -> None:
        """From now on this share of the TCP segments that arrive here is dropped."""
        rule = f"numgen random mod 100 < {percent} drop" if percent < 100 else "drop"
        commands = (
            "add table inet loss",
            "add chain inet loss in { type filter hook input priority 0; }",
            "flush chain inet loss in",
            f"add rule inet loss in meta l4proto tcp {rule}",
        )
        self.run("nft", "; ".join(commands))

    def heal(self) -> None:
        """From now on every segment arrives."""
        self.run("nft", "flush chain inet loss in")

    def settle(self, seconds: float = 60) -> None:
        """Wait until no connection is left that the kernel still sends for."""
        deadline = time.monotonic() + seconds
        while self.run("ss", "-Htan", "exclude", "time-wait").stdout:
            assert time.monotonic() < deadline, "connections stay open"
            time.sleep(0.1)


@contextmanager
def wire() -> Iterator[tuple[End, End]]:
    """Two ends, connected; segments are not joined, so that each one is counted."""
    tag = uuid4().hex[:6]
    ends = (
        End(f"cot-{tag}-a", "10.97.0.1", "fd97::1"),
        End(f"cot-{tag}-b", "10.97.0.2", "fd97::2"),
    )
    with ExitStack() as stack:
        for end in ends:
            ip("netns", "add", end.namespace)
            stack.callback(ip, "netns", "delete", end.namespace)
        ip("link", "add", "wire", "netns", ends[0].namespace, "type", "veth",
           "peer", "name", "wire", "netns", ends[1].namespace)  # fmt: skip
        for end in ends:
            at = ("-n", end.namespace)
            ip(*at, "link", "set", "lo", "up")
            ip(*at, "addr", "add", f"{end.address}/24", "dev", "wire")
            ip(*at, "addr", "add", f"{end.address6}/64", "dev", "wire", "nodad")
            ip(*at, "link", "set", "wire", "gso_max_segs", "1", "up")
        yield ends
