"""A Debian without a compiler, to install things into: what a root of tools/root.sh has, and on top
of it what the test writes. Its mounts are in a namespace of their own and end with the command."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
# Binds of the host's own: its kernel is what is recorded.
_ENTER = """
set -e
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
for place in proc sys dev; do mount --rbind "/$place" "$2/root/$place"; done
mount --bind "$3" "$2/root/mnt"
inside=$2/root
shift 3
exec chroot "$inside" "$@"
"""
# What somebody's shell has set, and nothing of this checkout's.
CLEAN = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"}


def made_root(name: str, packages: str) -> Path:
    """What tools/root.sh makes, or has made."""
    done = subprocess.run(
        [REPOSITORY / "tools" / "root.sh", name, packages],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def build_root() -> Path:
    """That of tools/wheel.sh, which has what a build needs."""
    made = REPOSITORY / "build" / "roots" / "build.made"
    if not made.exists():
        subprocess.run([REPOSITORY / "tools" / "wheel.sh", REPOSITORY / "dist"], check=True)
    return made_root("build", made.read_text())


@dataclass(frozen=True, slots=True)
class Root:
    """One such Debian; ``shared`` is seen inside as /mnt."""

    base: Path
    place: Path
    shared: Path

    def __post_init__(self) -> None:
        for name in ("upper", "work", "root"):
            (self.place / name).mkdir(parents=True, exist_ok=True)

    def command(self, *words: str) -> list[str]:
        """The command line that runs these words inside."""
        return ["unshare", "--mount", "--propagation=private", "sh", "-c", _ENTER, "enter",
                str(self.base), str(self.place), str(self.shared), *words]  # fmt: skip

    def run(
        self, *words: str, environment: dict[str, str] | None = None, seconds: float = 600
    ) -> "subprocess.CompletedProcess[str]":
        """Run to its end."""
        return subprocess.run(
            self.command(*words), capture_output=True, text=True, check=False, timeout=seconds,
            env=CLEAN | (environment or {}),
        )  # fmt: skip

    def must(self, *words: str, seconds: float = 600) -> str:
        """Run; what it printed. Fails if it does."""
        done = self.run(*words, seconds=seconds)
        assert done.returncode == 0, f"{words}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout
