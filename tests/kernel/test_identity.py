"""From a cgroup id to its tenant, on the running kernel."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kernel.conftest import SIM, Cgroup, cgroup_root, record, sim_environment, truth

CALLS = 7
SHORT_LIVED = 1000

# Makes one cgroup after the other; in each, a process makes its calls and is gone.
CHURN = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern int cuCtxGetDevice(int *), cuInit(unsigned), cuMemAlloc_v2(unsigned long *, unsigned long);
extern int cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);

int main(int argc, char **argv)
{
	int cgroups = atoi(argv[2]), calls = atoi(argv[3]);
	char path[512], procs[600];

	for (int i = 0; i < cgroups; i++) {
		snprintf(path, sizeof(path), "%s/churn-%d", argv[1], i);
		if (mkdir(path, 0755))
			return 2;
		pid_t child = fork();
		if (child == 0) {
			unsigned long memory;
			int fd;

			snprintf(procs, sizeof(procs), "%s/cgroup.procs", path);
			fd = open(procs, O_WRONLY);
			if (fd < 0 || write(fd, "0", 1) != 1)
				_exit(3);
			for (int n = 0; n < calls; n++)
				cuMemAlloc_v2(&memory, 1000 + i);
			_exit(0);
		}
		int status = 0;
		waitpid(child, &status, 0);
		if (status || rmdir(path))
			return 4;
	}
	return 0;
}
"""


@pytest.fixture
def churn(tmp_path: Path) -> Path:
    """A client that makes short-lived cgroups."""
    (tmp_path / "churn.c").write_text(CHURN)
    subprocess.run(
        [
            "gcc",
            "-O1",
            "-o",
            tmp_path / "churn",
            tmp_path / "churn.c",
            f"-L{SIM}",
            "-l:libcuda.so.1",
        ],
        check=True,
    )
    return tmp_path / "churn"


def test_a_thousand_short_lived_cgroups_each_keep_their_calls(
    cgroup: Cgroup, churn: Path, store: Path
) -> None:
    with record(store) as recording:
        # The library is probed before the first of them lives.
        warm = [SIM / "workload", "launch", "--steps", "1"]
        subprocess.run(warm, env=sim_environment(), stdout=subprocess.DEVNULL, check=True)
        recording.wait_probed("libcuda.so.1")
        subprocess.run(
            [churn, cgroup.path, str(SHORT_LIVED), str(CALLS)], env=sim_environment(), check=True
        )
    # Each asked for memory of its own size, so that a row tells where it was made.
    rows = recording.sql(
        "select cgroup_path, bytes, count(*) as n from cuda_events "
        "join containers using (cgroup_id) "
        "where op = 'alloc' and cgroup_path like '%/churn-%' group by all"
    )
    assert {(row["cgroup_path"], row["bytes"], row["n"]) for row in rows} == {
        (f"/{cgroup.name}/churn-{i}", 1000 + i, CALLS) for i in range(SHORT_LIVED)
    }
    (lived,) = recording.sql(
        "select count(*) as n from containers where cgroup_path like '%/churn-%' "
        "and removed_ns > created_ns and hierarchy = 0"
    )
    assert lived == {"n": SHORT_LIVED}


@pytest.mark.parametrize("hierarchy", ["v2", "memory", "pids"])
def test_the_same_recording_by_another_hierarchy(
    hierarchy: str, store: Path, tmp_path: Path, cgroups: Callable[[], Cgroup]
) -> None:
    mounted = Path("/sys/fs/cgroup") / hierarchy
    if hierarchy != "v2" and not mounted.is_dir():
        pytest.skip(f"no version 1 {hierarchy} controller is mounted here")
    groups = []
    for number in range(2):
        name = f"cotenant-test-{os.getpid()}-{number}"
        group = cgroups().path if hierarchy == "v2" else mounted / name
        group.mkdir(exist_ok=True)
        groups.append(group)
    try:
        with record(store, "--hierarchy", hierarchy) as recording:
            for number, group in enumerate(groups):
                subprocess.run(
                    [SIM / "workload", "--steps", "101", "--seed", str(number)],
                    env=sim_environment(tmp_path / f"log{number}"),
                    preexec_fn=Cgroup(group).enter,
                    stdout=subprocess.DEVNULL,
                    check=True,
                )
        for number, group in enumerate(groups):
            made = sum(call["op"] == "launch" for call in truth(tmp_path / f"log{number}"))
            (row,) = recording.sql(
                "select count(*) as n from cuda_events join containers using (cgroup_id) "
                f"where op = 'launch' and cgroup_path = '/{group.name}'"
            )
            assert row == {"n": made}
    finally:
        if hierarchy != "v2":
            for group in groups:
                group.rmdir()


def test_a_thread_that_moves_is_charged_where_it_is(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path
) -> None:
    first, second = cgroups(), cgroups()
    ready, resume, log = tmp_path / "ready", tmp_path / "resume", tmp_path / "log"
    with record(store) as recording:
        client = first.popen(
            [SIM / "workload", "launch", "--steps", "97", "--pause-after", "41",
             "--resume-on", resume, "--ready", ready],
            env=sim_environment(log),
        )  # fmt: skip
        while not ready.exists():
            assert client.poll() is None
        (second.path / "cgroup.procs").write_text(str(client.pid))
        resume.touch()
        client.communicate(timeout=60)
    rows = recording.sql(
        "select cgroup_path, count(*) as n from cuda_events join containers using (cgroup_id) "
        "where op = 'launch' group by all order by n"
    )
    assert rows == [
        {"cgroup_path": f"/{first.name}", "n": 41},
        {"cgroup_path": f"/{second.name}", "n": 56},
    ]
    assert cgroup_root().is_dir()
