"""The rows of an answer, one Arrow batch at a time."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import duckdb

from cotenant.query.engine.statement import one_line

BATCH_ROWS: Final = 100_000


class FileGone(Exception):
    """A segment that the manifest named cannot be opened."""


class Batches:
    """Runs a query and iterates once over its ``pyarrow.RecordBatch`` es.

    The first batch is fetched by the constructor: most errors show then, while the caller can
    still retry. ``translate`` turns DuckDB's errors into ours.
    """

    def __init__(
        self,
        cursor: Any,
        sql: str,
        params: dict[str, Any] | None,
        translate: Callable[[Exception], Exception],
    ) -> None:
        self._translate = translate
        try:
            relation = cursor.sql(sql, params=params) if params else cursor.sql(sql)
            self._reader = relation.to_arrow_reader(BATCH_ROWS)
            self.schema: Any = self._reader.schema
            self._first = next(self._reader, None)
        except duckdb.IOException as error:
            raise FileGone(one_line(error)) from error
        except (duckdb.Error, OSError, ValueError) as error:
            # Arrow wraps the error of a query that has begun to answer.
            if str(error).startswith("IO Error"):
                raise FileGone(one_line(error)) from error
            raise translate(error) from error

    def __iter__(self) -> Iterator[Any]:
        if self._first is None:
            return
        yield self._first
        self._first = None
        while True:
            try:
                batch = next(self._reader, None)
            except (duckdb.Error, OSError, ValueError) as error:
                raise self._translate(error) from error
            if batch is None:
                return
            yield batch
