"""What an operator says once: who is left alone, and who is called what."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.kernel.conftest import COTENANT, SIM, Cgroup, ask, record, sim_environment
from tests.unit.identity.runtimes.fake_runtimes import FakeServer, daemon

STEPS = 23
V1_MEMORY = Path("/sys/fs/cgroup/memory")


def run(cgroup: Cgroup, log: Path) -> None:
    client = cgroup.popen([SIM / "workload", "launch", "--steps", STEPS], env=sim_environment(log))
    client.communicate(timeout=60)
    assert client.returncode == 0


def test_a_recorder_that_is_itself_left_alone_records_all_others(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path
) -> None:
    mine, other = cgroups(), cgroups()
    config = tmp_path / "config.toml"
    config.write_text(f'exclude = ["*{mine.name}*"]\n')
    with record(store, "--config", str(config), inside=mine) as recording:
        run(other, tmp_path / "a")
    rows = recording.sql("select count(*) as n from cuda_events where op = 'launch'")
    assert rows == [{"n": STEPS}]
    said = recording.errors.read_text()
    assert said.count("no cuda or nccl event of a call of our own arrived") == 1


def test_an_excluded_tenant_is_never_recorded_and_others_are(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path
) -> None:
    early, open_to_all = cgroups(), cgroups()
    config = tmp_path / "config.toml"
    config.write_text('exclude = ["*-secret*", "*/hidden*"]\n')
    with record(store, "--config", str(config)) as recording:
        run(open_to_all, tmp_path / "a")
        # Made while the recording runs, excluded by its path before anything runs in it.
        hidden = Cgroup(open_to_all.path / "hidden-1")
        hidden.path.mkdir()
        run(hidden, tmp_path / "b")
        hidden.path.rmdir()
    assert early.path.exists()
    rows = recording.sql(
        "select cgroup_path, count(*) as n from cuda_events join containers using (cgroup_id) "
        "where op = 'launch' group by all"
    )
    assert rows == [{"cgroup_path": f"/{open_to_all.name}", "n": STEPS}]
    totals = recording.sql(
        "select count(*) as n from totals join containers using (cgroup_id) "
        "where cgroup_path like '%hidden%' and family = 'cuda'"
    )
    assert totals == [{"n": 0}]


@pytest.mark.skipif(not V1_MEMORY.is_dir(), reason="no version 1 memory controller is mounted here")
def test_a_tenant_that_only_version_1_names_is_excluded_too(
    cgroup: Cgroup, store: Path, tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    config.write_text('exclude = ["*/hidden-*"]\n')
    with record(store, "--config", str(config)) as recording:
        hidden = Cgroup(V1_MEMORY / f"hidden-{cgroup.name}")
        hidden.path.mkdir()
        try:
            run(hidden, tmp_path / "a")
        finally:
            hidden.path.rmdir()
        run(cgroup, tmp_path / "b")
    rows = recording.sql(
        "select cgroup_path, count(*) as n from cuda_events join containers using (cgroup_id) "
        "where op = 'launch' group by all"
    )
    assert rows == [{"cgroup_path": f"/{cgroup.name}", "n": STEPS}]
    for table in ("host_events", "net_events", "totals"):
        family = "and family = 'cuda'" if table == "totals" else ""
        told = recording.sql(
            f"select count(*) as n from {table} join containers using (cgroup_id) "
            f"where cgroup_path like '%/hidden-%' {family}"
        )
        assert told == [{"n": 0}]


ODD_ID = "c" * 64


@contextmanager
def odd_container(cgroup: Cgroup, server: Path) -> Iterator[Cgroup]:
    """A cgroup whose path is not UTF-8, a process in it, and a Docker that knows the process."""
    odd = Cgroup(cgroup.path / os.fsdecode(b"bad\xff") / f"docker-{ODD_ID}.scope")
    odd.path.mkdir(parents=True)
    inhabitant = odd.popen(["sleep", "infinity"])
    docker = FakeServer(
        server,
        daemon(
            {
                "Id": ODD_ID,
                "Name": "/odd",
                "Config": {"Image": "tenant", "Labels": {}},
                "State": {"Pid": inhabitant.pid},
            }
        ),
    )
    try:
        yield odd
    finally:
        docker.close()
        inhabitant.kill()
        inhabitant.communicate()
        odd.path.rmdir()
        odd.path.parent.rmdir()


def test_a_container_whose_path_is_not_utf8_is_one_row_with_a_name_and_can_be_excluded(
    cgroup: Cgroup, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, config = tmp_path / "docker.sock", tmp_path / "config.toml"
    config.write_text(r"exclude = ['*/bad\xff/*']")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{server}")
    row = {"cgroup_path": rf"/{cgroup.name}/bad\xff/docker-{ODD_ID}.scope", "tenant": "odd"}
    named = f"from containers where name = 'odd' and container_id = '{ODD_ID}' and hierarchy = 0"
    rows = (
        "select cgroup_path, tenant from containers "
        f"where cgroup_path like '/{cgroup.name}/%.scope' and hierarchy = 0"
    )
    # The kernel tells the first recording of it; the second finds it, and is to leave it alone.
    with record(store) as recording, odd_container(cgroup, server) as odd:
        run(odd, tmp_path / "a")
        (first,) = recording.wait_for(named)
        recording.stop()
        assert ask(store, rows) == [row]
        with record(store, "--config", str(config)) as second:
            run(odd, tmp_path / "b")
            late = Cgroup(odd.path.parent / "late")
            late.path.mkdir()
            run(late, tmp_path / "c")
            late.path.rmdir()
            second.wait_for(f"{named} and named_ns > {first['named_ns']}")
        assert ask(store, rows) == [row]
    launched = (
        "select cgroup_path, tenant, count(*) as n from cuda_events "
        "join containers using (cgroup_id) where op = 'launch' group by all"
    )
    assert ask(store, launched) == [{**row, "n": STEPS}]


def test_a_rule_renames_a_tenant_everywhere(cgroup: Cgroup, store: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'[[tenant]]\npath = "/{cgroup.name}"\ntenant = "team blue"\n')
    with record(store, "--config", str(config)) as recording:
        run(cgroup, tmp_path / "log")
    done = subprocess.run(
        [*COTENANT, "sql", "--store", store, "--format", "csv", "--tenant", "team blue",
         "select count(*) as n from cuda_events where op = 'launch'"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ['"n"', str(STEPS)]
    where = f"where cgroup_path = '/{cgroup.name}'"
    assert recording.sql(f"select tenant from containers {where}") == [{"tenant": "team blue"}]


def test_a_config_that_means_nothing_is_refused_in_one_line(tmp_path: Path) -> None:
    for text, word in (
        ("exclude = 3", "list"),
        ("[[tenant]]\nx = 1", "tenant"),
        ("=", "TOML"),
        ("a = 1", "a"),
    ):
        config = tmp_path / "config.toml"
        config.write_text(text)
        done = subprocess.run(
            [*COTENANT, "record", "--for", "1s", "--store", str(tmp_path / "s"),
             "--config", str(config)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 2
        assert word in done.stderr
        assert len(done.stderr.splitlines()) == 1
