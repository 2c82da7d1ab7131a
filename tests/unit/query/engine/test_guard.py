"""Somebody who may know of one tenant learns nothing of others, however he asks."""

import pyarrow as pa
import pytest

from cotenant.errors import QuestionError
from cotenant.query.engine.session import QueryLimits, Session
from cotenant.schema import TABLES

MANY = 301  # So many cgroups of the tenant's own make DuckDB filter by a sketch of them.


@pytest.fixture
def crowded(recorded):
    """The tenant `train` beside another, with a store in which it has very many cgroups."""
    own = range(10_000, 10_000 + MANY)
    recorded.writer.replace(
        "containers",
        pa.table(
            {
                "cgroup_id": list(own),
                "container_id": [f"{number:064x}" for number in own],
                "tenant": ["train"] * MANY,
                "node": ["node-a"] * MANY,
                "boot_id": ["boot-1"] * MANY,
            }
        ),
    )
    for cgroup_id in own[:7]:
        recorded.launches(cgroup_id, 3)
    recorded.launches(22, 20_011, name="secret")
    recorded.seal()
    return recorded


@pytest.fixture
def guarded(crowded):
    with Session(crowded.root, tenant="train", limits=QueryLimits(guarded=True)) as session:
        yield session


def test_what_is_asked_meets_no_row_of_another_tenant(guarded):
    for asked in (
        "FROM cuda_events "
        "WHERE CASE WHEN kernel_name <> 'gemm' THEN error(kernel_name) END IS NULL",
        "FROM cuda_events WHERE cgroup_id = 22 AND error(kernel_name) IS NULL",
        "SELECT CASE WHEN kernel_name = 'secret' THEN error('met') END FROM cuda_events",
        "FROM cuda_events JOIN range(1) r ON (kernel_name = 'gemm' OR error(kernel_name) IS NULL)",
        "FROM losses WHERE cgroup_id = 22 AND error(family) IS NULL",
        "FROM whole.nccl_events WHERE cgroup_id = 22 AND error(op) IS NULL",
    ):
        guarded.ask(asked)


def test_a_guarded_session_has_every_row_of_its_tenant(crowded, guarded):
    asked = "SELECT kernel_name, count(*) AS n FROM cuda_events GROUP BY ALL ORDER BY ALL"
    with Session(crowded.root, tenant="train") as plain:
        expected = plain.ask(asked).rows()
    assert guarded.ask(asked).rows() == expected == [{"kernel_name": "gemm", "n": 7 + 7 * 3}]


def test_the_columns_are_those_of_an_unguarded_session(crowded, guarded):
    with Session(crowded.root, tenant="train") as plain:
        for name in TABLES:
            asked = f"DESCRIBE {name}"
            shown = [(r["column_name"], r["column_type"]) for r in guarded.ask(asked).rows()]
            assert shown == [(r["column_name"], r["column_type"]) for r in plain.ask(asked).rows()]


@pytest.mark.parametrize(
    "sql",
    [
        "FROM interference",
        'SELECT * FROM "INTERFERENCE"',
        "SELECT count(*) FROM shared_time",
        "EXPLAIN ANALYZE FROM cuda_events",
        "SELECT sql FROM duckdb_views",
        "SELECT sql FROM sqlite_master",
        "SELECT view_definition FROM information_schema.views",
        "SELECT stats(cgroup_id) FROM cuda_events",
    ],
)
def test_a_question_about_every_tenant_is_refused(guarded, sql):
    with pytest.raises(QuestionError):
        guarded.ask(sql)
