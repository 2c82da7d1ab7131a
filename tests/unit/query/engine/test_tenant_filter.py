"""``--tenant X`` finds what a user means, in SQL and by a plain reading of the same rule."""

import re

import duckdb
import pytest

from cotenant.query.engine.tenant_filter import tenant_predicate

A, B = "a" * 64, "b" * 64
BEGINNING = re.compile("[0-9a-f]{4,}")
ID = re.compile("[0-9a-f]{32,}")

ROWS = [
    {"cgroup_id": 1, "tenant": "host", "container_id": "host"},
    {"cgroup_id": 2, "tenant": "trainer", "container_id": A, "name": "trainer"},
    {"cgroup_id": 3, "tenant": "t/p", "container_id": B, "pod": "p", "namespace": "t"},
    {"cgroup_id": 5, "tenant": "slurm/7", "container_id": "slurm/7", "slurm_job": "7"},
    {"cgroup_id": 6, "tenant": "slurm/71", "container_id": "slurm/71", "slurm_job": "71"},
    {"cgroup_id": 29, "tenant": "k", "container_id": "deadbeef", "name": "k"},
    {"cgroup_id": 7, "tenant": "s.service", "container_id": "s.service", "unit": "s.service"},
    {"cgroup_id": 11, "tenant": "aaaa", "container_id": "c" * 64, "name": "aaaa"},
    {"cgroup_id": 13, "tenant": "user/al", "container_id": "user/al", "user": "al"},
    {"cgroup_id": 17, "tenant": "z", "container_id": "d" * 64, "inner_container_id": "e" * 64},
    # A tenant may call a cgroup within its own as it likes.
    {"cgroup_id": 19, "tenant": "user/eve", "container_id": "user/eve", "inner_container_id": A},
    {"cgroup_id": 23, "tenant": "y", "container_id": "f" * 64, "inner_container_id": "e" * 63},
]
ASKED = {
    "trainer": [2],
    "t/p": [3],
    "p": [3],
    "7": [5],
    "slurm/7": [5],
    # Of others that are called alike, nothing is meant.
    "slurm": [],
    "slurm/": [],
    "user/a": [],
    "s.serv": [],
    "dead": [],
    "deadbeef": [29],
    "s": [7],
    "s.service": [7],
    "aaaa": [11],  # A tenant's name, although another id begins so.
    "aaaaa": [2],
    "bbbbbbbbbbbb": [3],
    "bbb": [],
    "al": [13],
    "eeee": [17, 23],
    "e" * 63: [23],
    "e" * 64: [17],
    A: [2],
    A[:63]: [2],
    "nobody": [],
    "": [],
    "' or 1=1 --": [],
}
COLUMNS = [
    "tenant",
    "container_id",
    "inner_container_id",
    "name",
    "pod",
    "namespace",
    "unit",
    "slurm_job",
    "user",
]


def reading(row, text):
    """In which way, from 1, ``text`` means this row; None if in no way."""
    namespace, pod = row.get("namespace"), row.get("pod")
    unit = row.get("unit")
    outer, inner = (str(row.get(key) or "") for key in ("container_id", "inner_container_id"))
    exact = [row.get(key) for key in ("name", "pod", "unit", "slurm_job", "user")]
    if namespace and pod:
        exact.append(f"{namespace}/{pod}")
    if text == row.get("tenant"):
        return 1
    if text in exact:
        return 2
    if isinstance(unit, str) and "." in unit and unit.rpartition(".")[0] == text:
        return 3
    for rank, container_id in ((4, outer), (6, inner)):
        if text == container_id:
            return rank
        known = BEGINNING.fullmatch(text) and ID.fullmatch(container_id)
        if known and container_id.startswith(text):
            return rank + 1
    return None


def matching_rows(rows, text):
    """The rows that ``--tenant text`` means."""
    if not text:
        return []
    read = [(rank, row) for row in rows if (rank := reading(row, text)) is not None]
    best = min((rank for rank, _ in read), default=0)
    return [row for rank, row in read if rank == best]


@pytest.mark.parametrize("text", ASKED)
def test_a_tenant_is_found_by_whatever_name_the_user_knows(text):
    assert [row["cgroup_id"] for row in matching_rows(ROWS, text)] == ASKED[text]


@pytest.mark.parametrize("text", ASKED)
def test_sql_finds_the_same_rows(text):
    sql, parameters = tenant_predicate(text)
    with duckdb.connect() as database:
        columns = ", ".join(f'"{name}" varchar' for name in COLUMNS)
        database.execute(f"create table containers (cgroup_id bigint, {columns})")
        marks = ", ".join("?" * (len(COLUMNS) + 1))
        for row in ROWS:
            values = [row["cgroup_id"], *(row.get(name) for name in COLUMNS)]
            database.execute(f"insert into containers values ({marks})", values)
        database.execute("create table events as select cgroup_id from containers")
        found = database.execute(
            f"select cgroup_id from events where {sql} order by 1", parameters
        ).fetchall()

    assert [cgroup_id for (cgroup_id,) in found] == ASKED[text]
