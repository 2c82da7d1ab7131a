"""What may be asked, and how what may not is refused."""

import pytest

from cotenant.errors import QuestionError
from cotenant.query.engine.session import Session


@pytest.fixture
def session(recorded):
    with Session(recorded.root) as session:
        yield session


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "select 1;",
        "  -- why\n SELECT 1 /* because */ ;",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "WITH RECURSIVE a(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM a WHERE n < 3) FROM a",
        "FROM cuda_events",
        "TABLE containers",
        "VALUES (1), (2)",
        "DESCRIBE cuda_events",
        "SHOW TABLES",
        "SUMMARIZE containers",
        "EXPLAIN SELECT 1",
        "EXPLAIN ANALYZE FROM cuda_events",
        "/* plan */ EXPLAIN (FORMAT json) SELECT 1",
        "EXPLAIN SELECT * FROM cuda_events WHERE op IN ('launch', 'it''s') -- all of it",
        "SELECT * FROM range(3), unnest([1, 2])",
        "SELECT table_name FROM information_schema.tables",
        "PIVOT cuda_events ON op IN ('launch', 'memcpy') USING count(*)",
        "SELECT (SELECT max(op) FROM cuda_events) UNION ALL SELECT 'x' EXCEPT SELECT 'y'",
    ],
)
def test_a_statement_that_reads_is_allowed(session, sql):
    session.ask(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO containers VALUES (1)",
        "UPDATE containers SET tenant = 'me'",
        "DELETE FROM containers",
        "COPY containers TO 'out.csv'",
        "ATTACH 'other.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "UPDATE EXTENSIONS",
        "SET threads = 1",
        "RESET threads",
        "USE other",
        "PRAGMA version",
        "CALL pragma_version()",
        "CHECKPOINT",
        "CREATE TABLE mine AS SELECT 1",
        "CREATE VIEW cuda_events AS SELECT 1",
        "DROP VIEW cuda_events",
        "ALTER VIEW cuda_events RENAME TO mine",
        "EXPORT DATABASE 'out'",
        "IMPORT DATABASE 'out'",
        "BEGIN",
        "VACUUM",
        "PREPARE q AS SELECT 1",
        "EXECUTE q",
        "EXPLAIN COPY containers TO 'out.csv'",
        "EXPLAIN (ANALYZE --) FROM cuda_events /*\n) DROP VIEW cuda_events --*/",
        "EXPLAIN ANALYZE /* /* */ SELECT 1 -- */ */ DROP VIEW cuda_events",
        "EXPLAIN (ANALYZE) DROP VIEW cuda_events",
        "EXPLAIN (FORMAT json, ANALYZE) DROP VIEW cuda_events",
        "SELECT stats(timestamp_ns) FROM cuda_events",
        "WITH x AS (INSERT INTO containers VALUES (1) RETURNING *) FROM x",
        "WITH x AS (COPY containers TO 'out.csv') SELECT 1",
        "SELECT * FROM (WITH x AS (DELETE FROM containers RETURNING *) FROM x)",
        "SELECT sleep_ms(1)",
        "SELECT write_log('x')",
        "PIVOT cuda_events ON op USING count(*)",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP VIEW cuda_events",
        "",
        "-- nothing",
    ],
)
def test_a_statement_that_does_not_read_is_refused_in_one_line(session, sql, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(QuestionError) as caught:
        session.ask(sql)
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]
    assert session.ask("SELECT count(*) AS n FROM cuda_events").rows() == [{"n": 12}]


@pytest.mark.parametrize(
    "sql",
    [
        "FROM read_csv('/etc/passwd')",
        "FROM read_text('/etc/passwd')",
        "FROM read_blob('/etc/passwd')",
        "FROM read_parquet('/etc/passwd')",
        "FROM parquet_scan('/etc/passwd')",
        "FROM parquet_metadata('/etc/passwd')",
        "FROM sniff_csv('/etc/passwd')",
        "FROM glob('/etc/*')",
        "FROM '/etc/passwd'",
        "FROM '/etc/hosts.csv'",
        'SELECT * FROM "/etc/hosts.csv"',
        "FROM 'https://example.com/a.parquet'",
        "FROM query('FROM read_text(''/etc/passwd'')')",
        "FROM query_table('/etc/hosts.csv')",
        "FROM duckdb_settings()",
        "FROM json_execute_serialized_sql('{}')",
        "FROM arrow_scan(1, 2, 3)",
        "SELECT (SELECT content FROM read_text('/etc/passwd'))",
        "SELECT * FROM cuda_events WHERE comm IN (SELECT content FROM read_text('/etc/passwd'))",
        "EXPLAIN ANALYZE FROM read_text('/etc/passwd')",
        "DESCRIBE FROM read_text('/etc/passwd')",
        "SUMMARIZE FROM read_csv('/etc/passwd')",
        "FROM cuda_events ORDER BY (SELECT count(*) FROM glob('/*'))",
    ],
)
def test_no_other_file_is_in_reach(session, sql):
    with pytest.raises(QuestionError, match=r"is refused|is not a table of the store"):
        session.ask(sql)


def test_a_python_variable_is_no_table(session):
    secret = __import__("pyarrow").table({"a": [1]})
    with pytest.raises(QuestionError, match="Table with name secret does not exist"):
        session.ask("FROM secret")
    assert secret.num_rows == 1


@pytest.mark.parametrize(
    ("sql", "line"),
    [
        (
            "SELECT kernelname FROM cuda_events",
            'Referenced column "kernelname" not found in FROM clause; Candidate bindings: '
            '"kernel_name", "stream", "duration_ns"',
        ),
        (
            "FROM cuda_event",
            'Table with name cuda_event does not exist; Did you mean "cuda_events"?',
        ),
        ("SELECT", "cannot parse this SQL: SELECT clause without selection list"),
        ("SELEC 1", 'cannot parse this SQL: syntax error at or near "SELEC"'),
        ("SELECT 1; SELECT 2", "2 statements given; run one at a time"),
        ("", "empty SQL; try `SELECT * FROM containers`"),
    ],
)
def test_a_mistake_is_answered_in_one_line_with_a_hint(session, sql, line):
    with pytest.raises(QuestionError) as caught:
        session.ask(sql)
    assert str(caught.value) == line
