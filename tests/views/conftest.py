"""A store whose answers are known to the character."""

import contextlib
import io
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pytest

from cotenant.store.writer import StoreWriter
from cotenant.views.cli import main

NOW_NS = 1_790_000_000_000_000_000  # 2026-09-21 14:13:20 UTC.
KERNEL = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"


def _launches(cgroup_id, count, name, at_ns):
    same = {"pid": 101, "tid": 101, "cgroup_id": cgroup_id, "comm": "python", "op": "launch"}
    same |= {"api": "cuLaunchKernel", "kernel_name": name, "duration_ns": 1_500_000, "weight": 1}
    return pa.Table.from_pylist([same | {"timestamp_ns": at_ns + i} for i in range(count)])


def _who(cgroup_id, tenant, **more):
    who = {"cgroup_id": cgroup_id, "tenant": tenant, "container_id": tenant}
    return who | {"node": "node-a", "boot_id": "boot-1"} | more


@pytest.fixture
def place():
    """A directory that others may enter; pytest's own is closed to them."""
    with tempfile.TemporaryDirectory(prefix="cotenant-views-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def store(place):
    """A pod, a job and a silent unit; 12 of 1,234 events of the pod were lost."""
    root = place / "store"
    with StoreWriter(root, node="node-a", boot_id="boot-1", gid=65534) as writer:
        who = [
            _who(4_611_686_018_427_387_847, "ml/train", container_id="c0ffee" + "0" * 58),
            _who(2_305_843_009_213_693_951, "slurm/4711", slurm_job="4711"),
            _who(1_152_921_504_606_846_883, "cron.service", unit="cron.service"),
        ]
        who[0] |= {"pod": "train", "namespace": "ml"}
        names = ("container_id", "pod", "namespace", "slurm_job", "unit")
        rows = [{name: None for name in names} | row for row in who]
        writer.replace("containers", pa.Table.from_pylist(rows))
        writer.append("cuda_events", _launches(who[0]["cgroup_id"], 7, KERNEL, NOW_NS))
        later = NOW_NS + 60_000_000_000
        writer.append("cuda_events", _launches(who[1]["cgroup_id"], 3, "gemm", later))
        loss = {"timestamp_ns": NOW_NS, "family": "cuda", "cgroup_id": who[0]["cgroup_id"]}
        loss |= {"seen": 1_234, "stored": 1_222, "shed": 0, "lost": 12, "queued": 0}
        writer.append("losses", pa.Table.from_pylist([loss]))
        writer.seal(NOW_NS)
    return root


@pytest.fixture
def cotenant(store, monkeypatch):
    """``cotenant(verb, ...)``: exit code, stdout and stderr of the command on the store."""

    def cotenant(*words, stdin=None, root=store):
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setenv("TZ", "UTC")
        time.tzset()
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = main([words[0], *words[1:], "--store", str(root)])
            except SystemExit as left:
                code = left.code
        return code, out.getvalue(), err.getvalue()

    return cotenant


# The interpreter may lie where only root may look: what is needed is loaded before root is left.
AS_USER = """
import os, sys
import duckdb, pyarrow, pyarrow.parquet
import cotenant.views.cli.sql, cotenant.views.cli.tenants
from cotenant.views.cli import main
user = int(sys.argv[1])
if user:
    os.setgroups([]); os.setgid(user); os.setuid(user)
sys.exit(main(sys.argv[2:]))
"""


@pytest.fixture
def process(store):
    """``process(verb, ..., user=...)``: the same, in a process of its own; stdout is bytes."""

    def process(*words, user=0):
        command = [sys.executable, "-c", AS_USER, str(user), *words]
        if "--store" not in words:
            command += ["--store", str(store)]
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
        return done.returncode, done.stdout, done.stderr.decode()

    return process


def more_launches(root, count, later=NOW_NS + 120_000_000_000):
    """Seal further launches of the pod into the store."""
    with StoreWriter(root, node="node-a", boot_id="boot-1", gid=65534) as writer:
        rows = _launches(4_611_686_018_427_387_847, count, "gemm", later)
        writer.append("cuda_events", rows)
        writer.seal(later)
