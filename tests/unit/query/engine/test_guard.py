"""Somebody who may know of one tenant learns nothing of others, however he asks."""

import duckdb
import pyarrow as pa
import pytest

from cotenant.errors import QuestionError, StoreError
from cotenant.query.derived.registry import DERIVED
from cotenant.query.engine.session import QueryLimits, Session
from cotenant.schema import TABLES
from tests.unit.query.conftest import NOW_NS

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


@pytest.fixture(scope="module")
def duckdb_says():
    """Everything that DuckDB itself knows by name: views, and functions by their kind."""
    with duckdb.connect() as connection:
        views = connection.execute(
            "SELECT schema_name, view_name FROM duckdb_views() WHERE internal"
        ).fetchall()
        functions = connection.execute(
            "SELECT DISTINCT function_type, function_name FROM duckdb_functions()"
        ).fetchall()
    assert {"duckdb_views", "pg_views", "views"} <= {name for _, name in views}
    return views, functions


def told(session, sql):
    """What comes back, as text; an error is what it says."""
    try:
        return str(session.ask(sql).table.to_pylist())
    except (QuestionError, StoreError) as error:
        return str(error)


def reveals(crowded, text):
    """Definitions name every segment by its path, and the node; plans name the tenants' ids."""
    signs = (
        ".parquet",
        "read_parquet(",
        "CREATE VIEW",
        "CASE WHEN own",
        str(crowded.root),
        "secret",
        "date=",
    )
    return [sign for sign in signs if sign in text]


def test_no_view_of_the_catalog_tells_a_definition(crowded, guarded, duckdb_says):
    views, _ = duckdb_says
    for schema, name in views:
        for asked in (
            f'FROM {schema}."{name}"',
            f'FROM "{name}"',
            f'FROM system.{schema}."{name}"',
            f'SELECT (FROM "{name}" SELECT count(*))',
            f'WITH x AS (FROM "{name}") FROM x',
            f'WITH "{name}" AS (FROM "{name}") FROM "{name}"',
            f'FROM (WITH "{name}" AS (SELECT 1) FROM "{name}"), {schema}."{name}"',
            f'DESCRIBE (FROM "{name}")',
            f'SUMMARIZE "{name}"',
            f'SHOW "{name}"',
        ):
            if asked in ('SHOW "tables"', 'SUMMARIZE "tables"'):  # Names alone.
                continue
            answer = told(guarded, asked)
            assert "is not among the tables of train" in answer, asked
            assert not reveals(crowded, answer), asked


def hidden_tables(session):
    """What there is beside the tables that the tenant may name."""
    cursor = session._connection.cursor()
    named = cursor.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() UNION "
        "SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal"
    ).fetchall()
    cursor.close()
    shown = {("main", name) for name in (*TABLES, *DERIVED)}
    return sorted({*named} - shown - {("whole", name) for name in TABLES})


def test_no_table_that_sees_other_tenants_is_reached_by_a_name_that_a_with_clause_has(
    crowded, guarded
):
    crowded.losses(22, seen=13)
    crowded.sessions((NOW_NS, None))
    crowded.seal()
    guarded.standing(TABLES)
    hidden = hidden_tables(guarded)
    assert {("whole", "beats"), ("whole", "recordings"), ("tenant", "touched")} < {*hidden}
    for schema, name in hidden:
        table = f"{schema}.{name}"
        for asked in (
            f"FROM {table}",
            f"WITH {name} AS (SELECT 1) FROM {table}",
            f"WITH {name} AS (SELECT 1) FROM memory.{table}",
            f'WITH {name} AS (SELECT 1) FROM "{schema.upper()}"."{name.upper()}"',
            f'WITH "{name.upper()}" AS (SELECT 1) FROM {table}',
            f"WITH {name} AS (SELECT 1), l AS (FROM losses) FROM {table}, {name}",
            f"WITH {name} AS (FROM {table}) FROM {name}",
            f"WITH {name} AS (SELECT 1) SELECT (SELECT count(*) FROM {table})",
            f"SELECT * FROM (WITH {name} AS (SELECT 1) FROM {name}) a, {table} b",
            f"SELECT 1 WHERE EXISTS (WITH {name} AS (SELECT 1) FROM {table})",
            f"WITH RECURSIVE {name} AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM {table} "
            f"WHERE i < 3) FROM {name}",
            f"WITH {name} AS (SELECT 1) SELECT 1 UNION ALL SELECT count(*) FROM {table}",
            f"WITH {name} AS (SELECT 1) PIVOT {table} ON node IN ('node-a') USING count(*)",
            f"WITH {name} AS (SELECT 1) SELECT * FROM (SUMMARIZE {table})",
            f"WITH {name} AS (SELECT 1) SELECT * FROM (DESCRIBE {table})",
            f"WITH {name} AS (SELECT 1) FROM cuda_events POSITIONAL JOIN {table}",
            f"WITH {name} AS (SELECT 1) FROM query_table('{table}')",
            f"SHOW {table}",
            f"SHOW TABLES FROM {schema}",
        ):
            with pytest.raises(QuestionError, match=r"is not among the tables of train|refused"):
                guarded.ask(asked)


def test_a_name_of_a_with_clause_is_no_table_elsewhere(guarded):
    """Not even of the session's own, which a moment's registration has in no schema."""
    for name in ("beats", "recordings", "fresh", "told_now", "read_now"):
        with pytest.raises(QuestionError, match=f"Table with name {name} does not exist"):
            guarded.ask(f"SELECT * FROM (WITH {name} AS (SELECT 1) FROM {name}) a, {name} b")


HARMLESS = {"generate_series", "range", "repeat", "repeat_row", "unnest", "json_each", "json_tree"}


def test_no_table_function_tells_a_definition(guarded, duckdb_says):
    _, functions = duckdb_says
    kinds = ("table", "table_macro", "pragma")
    names = {name for kind, name in functions if kind in kinds} - HARMLESS
    assert {"duckdb_views", "duckdb_tables", "duckdb_settings", "duckdb_secrets"} <= names
    for name in sorted(names):
        for given in ("", "'cuda_events'", "'main', 'cuda_events'", "1"):
            with pytest.raises(QuestionError, match=r"."):
                guarded.ask(f'FROM "{name}"({given})')


def test_no_scalar_function_tells_a_definition(crowded, guarded, duckdb_says):
    _, functions = duckdb_says
    kinds = ("scalar", "macro")
    named = [(k, n) for k, n in functions if k in kinds and n.replace("_", "").isalnum()]
    assert {("macro", "pg_get_viewdef"), ("scalar", "current_setting")} <= set(named)
    asked = [f"SELECT \"{name}\"('allowed_directories')" for _, name in named]
    asked += [
        f'SELECT string_agg("{name}"({given})::VARCHAR) FROM range(3000) t(r)'
        for kind, name in named
        for given in ("", "r")
        if kind == "macro"
    ]
    for sql in asked:
        assert not reveals(crowded, told(guarded, sql)), sql


@pytest.mark.parametrize(
    "sql",
    [
        "SHOW ALL TABLES",
        "SHOW TABLES FROM pg_catalog",
        "SHOW DATABASES",
        "SHOW SCHEMAS",
        "SHOW allowed_directories",
        "DESCRIBE",
        "FROM cuda_events, tenant.cgroups",
        "SELECT cuda_events FROM cuda_events WHERE no_such_column",
        "SELECT * FROM no_such_table",
        "SELECT no_such_function(1)",
        "SELECT kernel_name::INTEGER FROM cuda_events",
        "SELECT COLUMNS('.*')::INTEGER FROM cuda_events",
        "SELECT filename FROM cuda_events",
        "SELECT file_row_number FROM cuda_events",
        "SELECT rowid FROM cuda_events",
        "SELECT * FROM whole.losses WHERE error(node)",
        "SELECT getvariable('x'), current_query(), current_schemas(true)",
        "FROM json_execute_serialized_sql(json_serialize_sql('FROM duckdb_views()'))",
        "SELECT current_setting('allowed_directories')",
        "SELECT $allowed_directories",
        "SELECT @@allowed_directories",
        "SELECT kernel_name.typeof() FROM cuda_events",
        "SELECT 'x'.current_setting()",
        "FROM cuda_events TABLESAMPLE 1% (system)",
    ],
)
def test_no_roundabout_way_tells_a_definition(crowded, guarded, sql):
    assert not reveals(crowded, told(guarded, sql))


def test_what_a_page_needs_is_still_answered(guarded):
    for sql in (
        "SHOW TABLES",
        "DESCRIBE cuda_events",
        "SUMMARIZE cuda_events",
        "WITH mine AS (FROM cuda_events) SELECT count(*) FROM mine",
        "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 5) FROM n",
        "SELECT * FROM range(3) a, unnest([1, 2]) b",
        "SELECT * FROM spans",
        "FROM main.cuda_events, whole.losses",
        "WITH beats AS (FROM losses) FROM beats",
        "PIVOT (SELECT op, kernel_name FROM cuda_events) ON op IN ('launch') USING count(*)",
    ):
        assert guarded.ask(sql).table.num_columns
