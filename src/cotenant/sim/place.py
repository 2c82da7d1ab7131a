"""Where simulated tenants run: containers of Docker where there is or can be one, else cgroups."""

import contextlib
import mmap
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Protocol

from cotenant import sim
from cotenant.errors import CotenantError
from cotenant.sim.image import build_root
from cotenant.sim.tenant import Shared, SimulatedTenant

_DAEMON_S: Final = 30.0
_LOOK_S: Final = 0.1
# Sleeps for so long, unless all shall stop: then it is true.
Stopped = Callable[[float], bool]


def _never(seconds: float) -> bool:
    time.sleep(seconds)
    return False


class Place(Protocol):
    """Runs tenants."""

    words: str  # What it is, in a sentence: "in Docker containers".
    environment: dict[str, str]  # What a recorder needs to know to find names.

    def start(self, tenant: SimulatedTenant, shared: Shared) -> None:
        """Begin to run a tenant."""

    def wait(self, stopped: Stopped) -> None:
        """Until every tenant is done, or all shall stop."""

    def close(self) -> None:
        """Leave nothing behind."""


class Cgroups:
    """Plain cgroups of version 2: what is there without any container runtime."""

    words = "in cgroups of their own (no container can run here)"

    def __init__(self) -> None:
        self.environment: dict[str, str] = {}
        self._parent = _cgroup2()
        self._made: list[Path] = []
        self._running: list[subprocess.Popen[bytes]] = []
        # A recorder probes at its start what is mapped then: no call comes before its probe.
        self._mapped = [_map_code(path) for path in sim.library_dir().glob("lib*.so.*")]

    def start(self, tenant: SimulatedTenant, shared: Shared) -> None:
        """Run its commands inside a cgroup of its name."""
        group = self._parent / f"{tenant.name}.demo"
        group.mkdir(exist_ok=True)
        self._made.append(group)
        for command in tenant.commands:
            words = [word.replace("/tmp/", f"{shared.directory}/") for word in command]
            words = [word.replace("/log/", f"{shared.log(tenant.name)}/") for word in words]
            self._running.append(
                subprocess.Popen(
                    [str(sim.library_dir() / "workload"), *words],
                    env=sim.environment(_variables(tenant, shared.log(tenant.name), shared.device)),
                    preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid())),
                    stdout=subprocess.DEVNULL,
                    process_group=0,
                )
            )

    def wait(self, stopped: Stopped) -> None:
        """Until every command has ended."""
        for process in self._running:
            if _ended(process, stopped) and process.returncode:
                raise CotenantError(
                    f"a simulated tenant failed with exit code {process.returncode}"
                )

    def close(self) -> None:
        """End what still runs, and remove the cgroups."""
        for mapped in self._mapped:
            mapped.close()
        for process in self._running:
            if process.poll() is None:
                process.kill()
                process.wait()
        for group in self._made:
            with contextlib.suppress(OSError):
                group.rmdir()


class Docker:
    """Containers of a Docker daemon that runs, or of one that is started for the occasion."""

    words = "in Docker containers"

    def __init__(self, directory: Path, stopped: Stopped = _never) -> None:
        self._directory = directory
        self._daemon: subprocess.Popen[bytes] | None = None
        self._containers: list[str] = []
        self._images: list[str] = []
        self.environment: dict[str, str] = {}
        if self._docker("version", check=False).returncode:
            self._start_daemon(stopped)

    def _apart(self) -> dict[str, Any]:
        """How its commands are started: Ctrl-C is for us alone, who then clean up after them."""
        return {"env": {**os.environ, **self.environment}, "process_group": 0}

    def _docker(self, *words: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            ["docker", *words],
            capture_output=True,
            text=True,
            check=False,
            **self._apart(),
        )
        if check and done.returncode:
            said = (done.stderr.strip().splitlines() or ["no word"])[-1]
            raise CotenantError(f"docker {words[0]} failed: {said}")
        return done

    def _start_daemon(self, stopped: Stopped) -> None:
        socket = f"unix://{self._directory}/docker.sock"
        self.environment = {"DOCKER_HOST": socket}
        with (self._directory / "dockerd.log").open("wb") as log:
            self._daemon = subprocess.Popen(
                ["dockerd", "--iptables=false", "--ip6tables=false", "--bridge=none",
                 f"--data-root={self._directory}/data", f"--exec-root={self._directory}/exec",
                 f"--pidfile={self._directory}/pid", f"--host={socket}"],
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + _DAEMON_S
        while self._docker("version", check=False).returncode:
            late = time.monotonic() > deadline
            if late or self._daemon.poll() is not None or stopped(2 * _LOOK_S):
                self.close()
                raise CotenantError("dockerd does not start on this host")

    def try_out(self) -> None:
        """Run a container that does nothing: a daemon may answer where no container can run."""
        image = self._image("nothing", "/lib")
        self._docker("run", "--rm", "--network=none", image, "/bin/sh", "-c", "true")

    def _image(self, name: str, library_place: str) -> str:
        """An image with libraries of its own; what it is called."""
        root = self._directory / "roots" / name
        build_root(root, library_place)
        image = f"cotenant-demo-{name}"
        self._images.append(image)
        tar = ["tar", "-C", str(root), "-c", "."]
        with subprocess.Popen(tar, stdout=subprocess.PIPE, process_group=0) as packed:
            done = subprocess.run(
                ["docker", "import", "-", image],
                stdin=packed.stdout,
                capture_output=True,
                check=False,
                **self._apart(),
            )
        if packed.returncode or done.returncode:
            raise CotenantError(f"docker import failed: {done.stderr.decode().strip()}")
        return image

    def start(self, tenant: SimulatedTenant, shared: Shared) -> None:
        """Make an image with the tenant's own libraries, and a container of it."""
        image = self._image(tenant.name, tenant.library_place)
        variables = _variables(tenant, Path("/log"), Path("/device"))
        variables["LD_LIBRARY_PATH"] = tenant.library_place
        # The container fails if any of its commands does.
        starts = "".join(
            f'/bin/workload {" ".join(c)} >/dev/null & p="$p $!"; ' for c in tenant.commands
        )
        script = starts + "for one in $p; do wait $one || exit 1; done"
        options = [word for pair in variables.items() for word in ("-e", "=".join(pair))]
        name = self._free_name(tenant.name)
        self._containers.append(name)
        self._docker(
            "run", "-d", "--name", name, "--network=none", *options,
            "-v", f"{shared.log(tenant.name)}:/log", "-v", f"{shared.device}:/device",
            image, "/bin/sh", "-c", script,
        )  # fmt: skip

    def _free_name(self, name: str) -> str:
        """The tenant's name, unless a container of the user's has it."""
        taken = self._docker("ps", "-a", "--format", "{{.Names}}").stdout.split()
        return name if name not in taken else f"{name}-demo"

    def wait(self, stopped: Stopped) -> None:
        """Until every container has ended."""
        for name in self._containers:
            code = self._code(name, stopped)
            if code != "0":
                said = self._docker("logs", name, check=False).stderr.strip()
                raise CotenantError(f"the simulated tenant {name} failed ({code}): {said[-200:]}")

    def _code(self, name: str, stopped: Stopped) -> str:
        """The exit code of a container once it has ended; 0 if all shall stop before."""
        wait = ["docker", "wait", name]
        with subprocess.Popen(wait, stdout=subprocess.PIPE, text=True, **self._apart()) as waiting:
            if not _ended(waiting, stopped):
                waiting.kill()
                return "0"
            return str(waiting.communicate()[0]).strip()

    def close(self) -> None:
        """Remove containers and images, and end the daemon if it is ours."""
        if self._containers:
            self._docker("rm", "-f", *self._containers, check=False)
        if self._images:
            self._docker("rmi", "-f", *self._images, check=False)
        if self._daemon is not None:
            self._daemon.terminate()
            self._daemon.wait()
            self._daemon = None
            # The empty parents of its containers' cgroups, one in each hierarchy.
            for parent in (*Path("/sys/fs/cgroup").glob("*/docker"), _cgroup2() / "docker"):
                with contextlib.suppress(OSError):
                    parent.rmdir()
        shutil.rmtree(self._directory, ignore_errors=True)


def _ended(process: "subprocess.Popen[Any]", stopped: Stopped) -> bool:
    """Whether it ended before all shall stop."""
    while process.poll() is None:
        if stopped(_LOOK_S):
            return False
    return True


def _map_code(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ | mmap.PROT_EXEC)


def _variables(tenant: SimulatedTenant, log: Path, device: Path) -> dict[str, str]:
    return {
        "COTENANT_SIM_LOG": f"{log}/",
        "COTENANT_SIM_DEVICE": str(device / "gpu"),
        **tenant.environment,
    }


def _cgroup2() -> Path:
    for line in Path("/proc/mounts").read_text().splitlines():
        words = line.split()
        if words[2] == "cgroup2":
            return Path(words[1])
    raise CotenantError("no container runtime, and no cgroup2; mount it at /sys/fs/cgroup")


@contextlib.contextmanager
def best_place(directory: Path, stopped: Stopped) -> Iterator[Place]:
    """Docker where it runs or can be started, else cgroups; nothing of it is left afterwards."""
    place: Place
    try:
        if shutil.which("docker") is None:
            raise CotenantError("no docker command")
        directory.mkdir(parents=True, exist_ok=True)
        place = docker = Docker(directory, stopped)
        try:
            docker.try_out()
        except CotenantError:
            docker.close()
            raise
    except (CotenantError, OSError):
        place = Cgroups()
    try:
        yield place
    finally:
        place.close()
