"""``--node`` on every verb that reads a store, over a store of several nodes."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cotenant.store.writer import StoreWriter
from cotenant.views.cli import main
from cotenant.views.cli.commands import commands

NOW = 1_800_000_000_000_000_000
SECOND = 1_000_000_000
# A GPU that is known by its device file alone, of which each node has one, busy for two seconds.
SPAN = {
    "timestamp_ns": NOW, "pid": 1, "gpu": "/dev/nvidia0", "stream": 7, "end_ns": NOW + 2 * SECOND,
    "proof_ns": NOW + SECOND, "waited_ns": SECOND, "closed_by": "wait", "streams": 1, "launches": 1,
    "copies": 0, "copied_bytes": 0, "collectives": 0, "total_extent": 1.0, "shed": 0, "lost": False,
}  # fmt: skip
SESSION = {
    "session_id": "s", "boot_id": "b", "kernel": "6", "started_ns": NOW,
    "ended_ns": NOW + 4 * SECOND, "wall_offset_ns": 0,
    "attach_method": "multi", "layers": "auto", "hierarchy": "v2",
}  # fmt: skip
LAUNCHES = {"gpu-1": 7, "gpu-2": 11, "gpu-3": 13, "gpu-4": 17}
# Verbs with a store that do not answer from its tables.
NOT_READERS = {"record", "demo", "doctor", "health"}


def write(root: Path, node: str, number: int) -> None:
    """A node on which Docker's ``train`` and a pod launch; the job of Slurm spans nodes."""
    who = [
        {"tenant": "train", "name": "train", "container_id": f"{number:064x}"},
        {"tenant": f"ml/web-{number}", "pod": f"web-{number}", "namespace": "ml"},
        {"tenant": "slurm/71", "slurm_job": "71"},
        {"tenant": "host"},
    ]
    names = ("tenant", "name", "container_id", "pod", "namespace", "slurm_job")
    rows = [dict.fromkeys(names) | {"container_id": row["tenant"]} | row for row in who]
    ids = [10 * number + i for i in range(len(rows))]
    rows = [
        row | {"cgroup_id": i, "node": node, "boot_id": node}
        for i, row in zip(ids, rows, strict=True)
    ]
    calls = {"op": "launch", "api": "cuLaunchKernel", "kernel_name": "k", "duration_ns": 1000}
    calls |= {"timestamp_ns": NOW, "pid": 1, "tid": 1, "comm": "python", "weight": 1}
    with StoreWriter(root, node=node, boot_id=node) as writer:
        writer.replace("containers", pa.Table.from_pylist(rows))
        events = [calls | {"cgroup_id": i} for i in ids[:3] for _ in range(LAUNCHES[node])]
        writer.append("cuda_events", pa.Table.from_pylist(events))
        writer.append("spans", pa.Table.from_pylist([SPAN | {"cgroup_id": ids[0]}]))
        writer.replace("sessions", pa.Table.from_pylist([SESSION | {"node": node}]))
        at = {"family": "cuda", "function": "k", "count": 1, "sum_ns": 1, "max_ns": 1}
        counts = [at | {"timestamp_ns": NOW + i * SECOND, "histogram": [1]} for i in range(4)]
        counts = [row | {"cgroup_id": ids[3]} for row in counts]
        writer.append("totals", pa.Table.from_pylist(counts))
        writer.seal(NOW)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("fleet") / "store"
    for number, node in enumerate(LAUNCHES, 1):
        write(root, node, number)
    return root


@pytest.fixture
def said(fleet: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """``said(word, ...)``: what a verb prints about the store."""

    def said(*words: str) -> str:
        assert main([*words, "--store", str(fleet)]) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return said


def count(said: Any, *options: str) -> int:
    sql = "select count(*) as n from cuda_events"
    return int(json.loads(said("sql", sql, "--format", "json", *options))[0]["n"])


def test_every_verb_that_reads_a_store_takes_nodes() -> None:
    readers = {
        command.name: {name for option in command.options for name in option.names}
        for command in commands()
    }
    lacking = {name for name, options in readers.items() if "--store" in options} - NOT_READERS
    assert {name for name in lacking if "--node" not in readers[name]} == set()


def test_a_reader_sees_the_nodes_it_names_and_all_without(said: Any) -> None:
    assert count(said) == 3 * sum(LAUNCHES.values())
    assert count(said, "--node", "gpu-2") == 3 * LAUNCHES["gpu-2"]
    both = count(said, "--node", "gpu-2", "--node", "gpu-4")
    assert both == 3 * (LAUNCHES["gpu-2"] + LAUNCHES["gpu-4"])


def test_manifests_of_other_nodes_are_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, node in enumerate(("gpu-1", "gpu-2"), 1):
        write(tmp_path / "store", node, number)
    (tmp_path / "store/manifest/gpu-1.json").write_text("{")
    asked = ["sql", "select 7", "--store", str(tmp_path / "store")]
    assert main(asked) == 1
    assert main([*asked, "--node", "gpu-2"]) == 0
    assert "gpu-1.json is damaged" in capsys.readouterr().err


def test_an_unknown_node_is_one_line_that_says_which_there_are(
    fleet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for verb in (["sql", "select 1"], ["ask", "top_kernels"], ["explain"], ["tenants"],
                 ["top", "--once"], ["export", "csv", "--output", "/nowhere"],
                 ["serve", "--as-root"]):  # fmt: skip
        assert main([*verb, "--store", str(fleet), "--node", "gpu-22"]) != 0
        said = capsys.readouterr().err
        assert said.count("\n") == 1, said
        if verb[0] != "export":
            assert said.startswith("cotenant: there is no node gpu-22; did you mean gpu-2")
    assert main(["sql", "select 1", "--store", str(fleet), "--node", "zzzzzzzzz"]) == 1
    assert "there are gpu-1, gpu-2, gpu-3, gpu-4" in capsys.readouterr().err


def test_a_node_without_a_manifest_is_found_all_the_same(tmp_path: Path) -> None:
    write(tmp_path / "store", "gpu-1", 1)
    (tmp_path / "store/manifest/gpu-1.json").unlink()
    assert main(["sql", "select 1", "--store", str(tmp_path / "store"), "--node", "gpu-1"]) == 0


def tenants(said: Any, *options: str) -> dict[str, int]:
    rows = json.loads(said("tenants", "--json", *options))
    found: dict[str, int] = {}
    for row in rows:
        found[row["tenant"]] = found.get(row["tenant"], 0) + row["events"]["cuda"]
    return found


def test_equal_names_are_one_tenant_only_where_a_cluster_gave_them(said: Any) -> None:
    found = tenants(said)
    assert {name: n for name, n in found.items() if name.startswith("train")} == {
        f"train@{node}": n for node, n in LAUNCHES.items()
    }
    assert found["slurm/71"] == sum(LAUNCHES.values())
    assert {f"ml/web-{number}" for number in range(1, 5)} < found.keys()
    assert len(found) == 4 + 4 + 1


def test_the_list_of_tenants_has_a_column_of_nodes_where_there_are_several(said: Any) -> None:
    several, one = (said("tenants", *words).splitlines() for words in ([], ["--node", "gpu-2"]))
    assert several[0].split()[-1] == "node"
    job = [line.split()[-1] for line in several if line.startswith("slurm/71")]
    assert sorted(job) == sorted(LAUNCHES)
    assert one[0].split()[-1] == "where"


def test_one_node_in_sight_needs_no_nodes_in_names(said: Any) -> None:
    n = LAUNCHES["gpu-2"]
    assert tenants(said, "--node", "gpu-2") == {"train": n, "ml/web-2": n, "slurm/71": n}


@pytest.mark.parametrize("tenant", ["train@gpu-2", "train"])
@pytest.mark.parametrize("nodes", [[], ["--node", "gpu-2"]])
def test_a_tenant_may_be_named_with_its_node_or_without(
    said: Any, tenant: str, nodes: list[str]
) -> None:
    all_four = tenant == "train" and not nodes
    expected = sum(LAUNCHES.values()) if all_four else LAUNCHES["gpu-2"]
    assert count(said, "--tenant", tenant, *nodes) == expected


def test_each_question_tells_nodes_apart(said: Any) -> None:
    rows = json.loads(said("ask", "launch_rate", "--json"))["rows"]
    assert {f"train@{node}" for node in LAUNCHES} < {row["tenant"] for row in rows}


def test_an_older_recording_is_read_by_what_it_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without ``scope`` only what surely is one tenant is; with it, the operator's names are."""
    for number, node in enumerate(("a", "b"), 1):
        who = [("team nlp", "fleet"), ("team cv", None), ("getty@tty1.service", "node")]
        rows = [
            {"cgroup_id": 10 * number + i, "tenant": tenant, "container_id": tenant, "scope": scope}
            | {"node": node, "boot_id": node}
            for i, (tenant, scope) in enumerate(who)
        ]
        with StoreWriter(tmp_path / "store", node=node, boot_id=node) as writer:
            writer.replace("containers", pa.Table.from_pylist(rows))
            writer.seal(NOW)
    sql = "select distinct tenant from containers order by 1"
    assert main(["sql", sql, "--format", "json", "--store", str(tmp_path / "store")]) == 0
    assert [row["tenant"] for row in json.loads(capsys.readouterr().out)] == [
        "getty@tty1.service@a", "getty@tty1.service@b", "team cv@a", "team cv@b", "team nlp"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("question", "column", "half"),
    [("gpu_use", "queued_ns", 2 * SECOND), ("who_uses_what", "gpu_queued_ns", 2 * SECOND)],
)
def test_no_tenant_has_more_of_a_gpu_than_there_is(
    said: Any, question: str, column: str, half: float
) -> None:
    rows = json.loads(said("ask", question, "--json"))["rows"]
    busy = {row["tenant"]: row[column] for row in rows if row["tenant"].startswith("train")}
    assert busy == {f"train@{node}": half for node in LAUNCHES}
