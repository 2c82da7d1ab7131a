"""Two nodes and two boots in one store, with equal kernel ids: nothing is mixed up."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from cotenant.identity.ledger import Ledger
from cotenant.query.engine.session import Session
from cotenant.query.questions.promises import promise
from cotenant.store.writer import StoreWriter

KERNEL_ID = 4242  # The same on every node and in every boot.
NOW = 1_800_000_000_000_000_000


def write(root: Path, node: str, boot: str, *, launches: int, calls: int) -> str:
    """One boot of one node: a container with its own numbers of launches and collectives."""
    container = f"{node}{boot}".encode().hex().ljust(64, "0")
    ledger = Ledger(node, boot)
    ledger.born(0, KERNEL_ID, f"/docker/{container}")
    cgroup = ledger.cgroup_id(0, KERNEL_ID)
    head = {"timestamp_ns": NOW, "pid": 1, "tid": 1, "cgroup_id": cgroup, "comm": "python"}
    cuda = {
        **head, "op": "launch", "api": "cuLaunchKernel", "kernel_name": "k", "duration_ns": 1000,
        "weight": 1,
    }  # fmt: skip
    nccl = {**head, "op": "AllReduce", "api": "ncclAllReduce", "duration_ns": 2000, "weight": 1}
    with StoreWriter(root, node=node, boot_id=boot) as writer:
        writer.append("cuda_events", pa.Table.from_pylist([cuda] * launches))
        writer.append("nccl_events", pa.Table.from_pylist([nccl] * calls))
        writer.replace("containers", pa.Table.from_pylist(ledger.rows()))
        writer.seal(NOW)
    return container


def test_equal_kernel_ids_of_nodes_and_boots_stay_apart(tmp_path: Path) -> None:
    made: dict[str, tuple[int, int]] = {}
    numbers: Callable[[int], tuple[int, int]] = lambda at: (7 + at, 3 + at)  # noqa: E731
    for at, (node, boot) in enumerate([("a", "1"), ("a", "2"), ("b", "1"), ("b", "2")]):
        launches, calls = numbers(at)
        container = write(tmp_path, node, boot, launches=launches, calls=calls)
        made[container] = (launches, calls)
    with Session(tmp_path) as session:
        kernels = session.ask(promise("kernels")).rows()
        nccl = session.ask(promise("nccl")).rows()
    assert {r["container_id"]: r["launches"] for r in kernels} == {
        c: n for c, (n, _) in made.items()
    }
    assert {r["container_id"]: r["calls"] for r in nccl} == {c: n for c, (_, n) in made.items()}
