"""What the docs say of the store's files holds for those who read them without us."""

import re
from pathlib import Path

import duckdb

from cotenant.query.engine.session import Session
from tests.serving import three_tenants

PAGE = Path(__file__).parents[2] / "docs/how/store.md"


def test_the_files_answer_as_the_store_does(tmp_path: Path) -> None:
    store = three_tenants(tmp_path / "store")
    [sql] = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    with duckdb.connect(":memory:") as connection:
        found = connection.execute(sql.replace("STORE", str(store))).fetchall()
    ours = re.sub(r"read_parquet\('STORE/(\w+)/[^)]*\)", r"\1", sql)
    with Session(store) as session:
        assert found == [tuple(row.values()) for row in session.ask(ours).rows()]
    assert {tenant for tenant, *_ in found} == {"ml/train", "ml/serve", "slurm/4711"}
