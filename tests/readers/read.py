"""Reads every table of a store with the library that is installed here, and prints it as JSON.

    python read.py duckdb|polars|pyarrow|pyspark STORE

Needs nothing of ours: it runs in an environment that has that library alone.
"""

import json
import sys
from pathlib import Path


def duckdb(tables):
    import duckdb

    for table in tables:
        files = f"{table}/*/*/*.parquet"
        found = duckdb.sql(f"FROM read_parquet('{files}', hive_partitioning = true)")
        yield [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]


def polars(tables):
    import polars

    for table in tables:
        files = f"{table}/*/*/*.parquet"
        yield polars.scan_parquet(files, hive_partitioning=True).collect().to_dicts()


def pyarrow(tables):
    from pyarrow import dataset

    for table in tables:
        yield dataset.dataset(table, partitioning="hive").to_table().to_pylist()


def pyspark(tables):
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.getOrCreate()
    for table in tables:
        yield [row.asDict() for row in spark.read.parquet(str(table)).collect()]
    spark.stop()


def main():
    reader, store = sys.argv[1:]
    tables = sorted(path for path in Path(store).iterdir() if any(path.glob("date=*")))
    rows = dict(zip([table.name for table in tables], globals()[reader](tables), strict=True))
    json.dump({"version": __import__(reader).__version__, "rows": rows}, sys.stdout, default=str)


if __name__ == "__main__":
    main()
