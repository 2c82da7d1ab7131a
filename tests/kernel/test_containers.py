"""Real containers: Docker on overlay storage, containerd, podman; each call once, by its name."""

import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cotenant.errors import CotenantError
from cotenant.sim.image import build_root
from cotenant.sim.place import Docker
from tests.kernel.compiler import CLIENTS, build_client
from tests.kernel.conftest import COTENANT, SIM, Recording, ask, cgroup_root, record, truth
from tests.kernel.containers import copy_needed, remove_tree
from tests.lacking import lacking
from tests.nvcc import build_with_nvcc

TIMES = 23
GPU = f"GPU-{uuid.UUID(bytes=b'cotenant-sim-gp0')}"
PLACE = "/usr/lib/x86_64-linux-gnu"


@pytest.fixture(scope="module")
def image_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with the stand-in libraries, the workload, and clients built for it."""
    root = tmp_path_factory.mktemp("root")
    build_root(root, PLACE)
    built = {"lazy": ["gcc", "-O1", "-o", root / "bin/lazy", CLIENTS / "lazy.c", "-ldl"]}
    copy_needed(root, build_with_nvcc(root / "bin/three", CLIENTS / "three.cu"))
    copy_needed(root, build_client(root / "bin/brief", "brief"))
    for name, command in built.items():
        subprocess.run([str(word) for word in command], check=True, capture_output=True)
        copy_needed(root, root / "bin" / name)
    return root


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory, image_root: Path) -> Iterator[dict[str, str]]:
    """A Docker daemon of our own with an image called ``tenant``; its environment."""
    directory = tmp_path_factory.mktemp("docker")
    with pytest.MonkeyPatch.context() as patch:
        # Whatever daemon there is, this is another.
        patch.setenv("DOCKER_HOST", f"unix://{directory}/none.sock")
        try:
            daemon = Docker(directory)
            daemon.try_out()
        except CotenantError as error:
            lacking("containers", f"no container can run here: {error}")
        environment = {**os.environ, **daemon.environment}
    try:
        packed = subprocess.run(
            ["tar", "-C", image_root, "-c", "."], capture_output=True, check=True
        )
        subprocess.run(
            ["docker", "import", "-", "tenant"],
            input=packed.stdout, env=environment, check=True, capture_output=True,
        )  # fmt: skip
        yield environment
    finally:
        daemon.close()


def run_docker(environment: dict[str, str], *words: str) -> str:
    done = subprocess.run(
        ["docker", *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def start(environment: dict[str, str], name: str, log: Path, *command: str) -> str:
    """A container that logs what it did; its id."""
    log.mkdir()
    return run_docker(
        environment, "run", "-d", "--name", name, "--network=none", "-v", f"{log}:/log",
        "-e", "COTENANT_SIM_LOG=/log/", "-e", f"LD_LIBRARY_PATH={PLACE}", "tenant", *command,
    )  # fmt: skip


def finish(environment: dict[str, str], *names: str) -> None:
    """Wait for containers to end well, and remove them."""
    for name in names:
        assert run_docker(environment, "wait", name) == "0", run_docker(environment, "logs", name)
    run_docker(environment, "rm", *names)


def launches(log: Path) -> Counter[str]:
    """Launches by mangled kernel, by the clients' own word."""
    found: Counter[str] = Counter()
    for file in log.iterdir():
        found.update(call["kernel"] for call in truth(file) if call["op"] == "launch")
    return found


def readable(names: Counter[str]) -> Counter[str]:
    """The same, demangled by binutils."""
    done = subprocess.run(
        ["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True
    )
    return Counter(dict(zip(done.stdout.splitlines(), names.values(), strict=True)))


def by_container(recording: Recording) -> dict[str, Counter[str]]:
    """The first promised query, as a mapping of containers to their launches."""
    found: dict[str, Counter[str]] = {}
    for row in recording.sql(
        "select container_id, kernel_name, count(*) as n from cuda_events join containers "
        "using (cgroup_id) where op = 'launch' group by all"
    ):
        found.setdefault(row["container_id"], Counter())[row["kernel_name"]] = row["n"]
    return found


def test_two_containers_of_one_image_on_overlay_count_each_call_once(
    docker: dict[str, str], store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "overlay2" in run_docker(docker, "info", "--format", "{{.Driver}}")
    monkeypatch.setenv("DOCKER_HOST", docker["DOCKER_HOST"])
    ids = {}
    with record(store) as recording:
        for name, api in (("first", "driver"), ("second", "runtime13")):
            ids[name] = start(
                docker, name, tmp_path / name, "/bin/workload", "--api", api, "--steps", "211"
            )
        finish(docker, "first", "second")
    found = by_container(recording)
    for name, container in ids.items():
        assert found[container] == readable(launches(tmp_path / name))
    rows = recording.sql(
        "select tenant, name, image, runtime, trust from containers "
        f"where container_id in ('{ids['first']}', '{ids['second']}') order by name"
    )
    assert rows == [
        {"tenant": n, "name": n, "image": "tenant", "runtime": "docker", "trust": "host"}
        for n in ("first", "second")
    ]
    (gap,) = recording.sql("select attach_gap_ns from sessions")
    assert gap["attach_gap_ns"] is None  # Probed before anybody had mapped them.
    (init,) = recording.sql(
        "select sum(count)::bigint as n from totals join containers using (cgroup_id) "
        "where function = 'cuInit' and name in ('first', 'second')"
    )
    logs = [call for name in ids for file in (tmp_path / name).iterdir() for call in truth(file)]
    assert init == {"n": sum(call["api"] == "cuInit" for call in logs)}


def test_a_program_built_by_nvcc_shows_its_own_kernels(
    docker: dict[str, str], store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", docker["DOCKER_HOST"])
    with record(store) as recording:
        container = start(docker, "nvcc", tmp_path / "log", "/bin/three", str(TIMES))
        finish(docker, "nvcc")
    assert by_container(recording)[container] == {
        "scale(float*, float, int)": TIMES,
        "void accumulate<float, 7>(float*)": TIMES,
        "void accumulate<double, 3>(double*)": TIMES,
        "deep::inside(int*)": TIMES,
    }
    shapes = recording.sql(
        "select distinct grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes "
        "from cuda_events where kernel_name like 'scale%'"
    )
    assert shapes == [
        {
            "grid_x": 3,
            "grid_y": 2,
            "grid_z": 1,
            "block_x": 32,
            "block_y": 4,
            "block_z": 1,
            "shared_bytes": 64,
        }
    ]


def test_a_program_that_finds_the_driver_by_itself_is_seen(
    docker: dict[str, str], store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", docker["DOCKER_HOST"])
    with record(store) as recording:
        container = start(docker, "lazy", tmp_path / "log", "/bin/lazy", str(TIMES))
        finish(docker, "lazy")
    assert by_container(recording)[container] == {"add_kernel(float*, float*, int)": TIMES}


def test_a_container_of_fifty_milliseconds_is_recorded_whole(
    docker: dict[str, str], store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", docker["DOCKER_HOST"])
    log = tmp_path / "log"
    log.mkdir()
    with record(store) as recording:
        run_docker(
            docker, "run", "--rm", "--name", "brief", "--network=none", "-v", f"{log}:/log",
            "-e", f"LD_LIBRARY_PATH={PLACE}", "tenant", "/bin/brief", "/log/calls", "101", "490",
        )  # fmt: skip
    calls = (log / "calls").read_text().splitlines()[1:]
    rows = recording.sql(
        "select grid_x from cuda_events join containers using (cgroup_id) "
        "where name = 'brief' and op = 'launch' order by 1"
    )
    assert [row["grid_x"] for row in rows] == list(range(1, len(calls) + 1))
    assert len(calls) == 101
    assert recording.sql("select attach_gap_ns from sessions") == [{"attach_gap_ns": None}]


@pytest.fixture
def containerd(tmp_path: Path) -> Iterator[list[str]]:
    """A containerd of our own in its usual place; the ``ctr`` command for it."""
    if Path("/run/containerd/containerd.sock").exists():
        probe = subprocess.run(["ctr", "version"], capture_output=True, check=False)
        if probe.returncode == 0:
            yield ["ctr", "--namespace", "cotenant-test"]
            return
    config = tmp_path / "config.toml"
    config.write_text(f'version = 2\nroot = "{tmp_path}/root"\nstate = "/run/containerd"\n')
    with (tmp_path / "containerd.log").open("wb") as log:
        daemon = subprocess.Popen(["containerd", "--config", str(config)], stdout=log, stderr=log)
    try:
        for _ in range(150):
            if not subprocess.run(["ctr", "version"], capture_output=True, check=False).returncode:
                break
            time.sleep(0.1)
        yield ["ctr", "--namespace", "cotenant-test"]
    finally:
        daemon.terminate()
        daemon.wait()
        subprocess.run(["umount", "-R", str(tmp_path / "root")], capture_output=True, check=False)
        shutil.rmtree("/run/containerd", ignore_errors=True)
        remove_tree(cgroup_root() / "cotenant-test")
        for left in Path("/sys/fs/cgroup").glob("*/cotenant-test"):
            remove_tree(left)


def test_a_container_of_containerd_is_named_by_its_id(
    containerd: list[str], image_root: Path, store: Path, tmp_path: Path
) -> None:
    (tmp_path / "log").mkdir()
    with record(store) as recording:
        subprocess.run(
            [*containerd, "run", "--rm", "--runc-binary", "runc", "--rootfs",
             "--mount", f"type=bind,src={tmp_path / 'log'},dst=/log,options=rbind:rw",
             "--env", "COTENANT_SIM_LOG=/log/", "--env", f"LD_LIBRARY_PATH={PLACE}",
             str(image_root), "trainer-0", "/bin/workload", "--api", "driver", "--steps", "101"],
            check=True, capture_output=True, timeout=120,
        )  # fmt: skip
    assert by_container(recording)["trainer-0"] == readable(launches(tmp_path / "log"))
    (row,) = recording.sql(
        "select runtime, tenant from containers where container_id = 'trainer-0'"
    )
    assert row["runtime"] == "containerd"
    assert "trainer-0" in row["tenant"]


def test_a_container_of_podman_is_named_by_its_name(
    image_root: Path, store: Path, tmp_path: Path
) -> None:
    (tmp_path / "log").mkdir()
    # podman refuses long paths.
    run = Path(tempfile.mkdtemp(prefix="pod-"))
    podman = [
        *("podman", "--root", str(run / "root"), "--runroot", str(run / "run")),
        *("--cgroup-manager", "cgroupfs", "--storage-driver", "vfs", "--events-backend", "file"),
    ]
    with record(store) as recording:
        done = subprocess.run(
            [*podman, "--runtime", "runc", "run", "--rm", "--name", "server", "--network=none",
             "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024",
             "-v", f"{tmp_path / 'log'}:/log", "-e", "COTENANT_SIM_LOG=/log/",
             "-e", f"LD_LIBRARY_PATH={PLACE}", "--rootfs", str(image_root),
             "/bin/workload", "--api", "runtime12", "--steps", "101"],
            check=False, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    shutil.rmtree(run, ignore_errors=True)
    for left in (*Path("/sys/fs/cgroup").glob("*/libpod_parent"), cgroup_root() / "libpod_parent"):
        remove_tree(left)
    rows = recording.sql(
        "select container_id, runtime from containers join cuda_events using (cgroup_id) "
        "group by all"
    )
    assert [row["runtime"] for row in rows] == ["podman"]
    assert len(rows[0]["container_id"]) == 64
    assert by_container(recording)[rows[0]["container_id"]] == readable(launches(tmp_path / "log"))


def test_the_demo_answers_both_promised_queries_exactly(store: Path) -> None:
    done = subprocess.run(
        [*COTENANT, "demo", "--store", str(store), "--for", "5s"],
        capture_output=True, text=True, check=False, timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    if "in Docker containers" not in done.stderr:
        lacking("containers", "the demo ran in cgroups")
    from cotenant.query.questions.promises import promise

    logs = store.with_name(store.name + ".sim") / "truth"
    tenants = {row["container_id"]: row["tenant"] for row in ask(store, "from containers")}
    made, nccl = Counter(), Counter()
    for tenant in ("train", "serve", "noisy"):
        for file in (logs / tenant).glob("*.jsonl"):
            for call in truth(file):
                made.update(promised_name(tenant, call))
                if call["op"] == "nccl":
                    nccl[tenant, call["nccl"]] += 1
    kernels = ask(store, promise("kernels"))
    assert len(kernels) < 20
    counted = Counter(
        {(tenants[r["container_id"]], r["kernel_name"]): r["launches"] for r in kernels}
    )
    assert counted == demangled(made)
    calls = ask(store, promise("nccl"))
    assert Counter({(tenants[r["container_id"]], r["op"]): r["calls"] for r in calls}) == nccl
    used = ask(
        store,
        "select distinct tenant, gpu from (select cgroup_id, gpu from cuda_events "
        "union all select cgroup_id, gpu from gpu_memory) join containers using (cgroup_id)",
    )
    assert {(r["tenant"], r["gpu"]) for r in used} == {
        (tenant, GPU) for tenant in ("train", "serve", "noisy")
    }


def promised_name(tenant: str, call: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What a row of this call is called, if it becomes one."""
    op = call["op"]
    if op == "launch":
        yield tenant, call["kernel"]
    elif op == "memcpy":
        yield tenant, f"[memcpy {call['direction']}]"
    elif op in ("memset", "alloc", "free", "sync"):
        yield tenant, f"[{op}]"


def demangled(counts: Counter[tuple[str, str]]) -> Counter[tuple[str, str]]:
    names = {name for _, name in counts}
    done = subprocess.run(
        ["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True
    )
    texts = dict(zip(names, done.stdout.splitlines(), strict=True))
    return Counter({(tenant, texts[name]): n for (tenant, name), n in counts.items()})


def test_nothing_of_the_runtimes_is_left_behind() -> None:
    listed = subprocess.run(
        ["ps", "-eo", "args"], capture_output=True, text=True, check=True
    ).stdout
    assert SIM.exists()
    assert "cotenant-demo-" not in listed
