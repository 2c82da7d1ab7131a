"""SQLite files of `nsys export --type sqlite`."""

import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from cotenant.profiles.kernel_names import base_name
from cotenant.profiles.operations import (
    COPY,
    GRAPH,
    LAUNCH,
    MOST_CORRELATION,
    MOST_NAMES,
    MOST_NS,
    SET,
    Collector,
    Operations,
    ProfileError,
    queues,
    shape_of,
)

MAGIC: Final = b"SQLite format 3\x00"
MAJORS: Final = (2, 3)  # Of EXPORT_SCHEMA_VERSION: Nsight Systems 2021 to 2026.
_KERNELS: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
_COPIES: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
_SETS: Final = "CUPTI_ACTIVITY_KIND_MEMSET"
_GRAPHS: Final = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_CALLS: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
_VERSIONS: Final = "META_DATA_EXPORT"
_STARTED: Final = "TARGET_INFO_SESSION_START_TIME"
_DIRECTIONS: Final = {1: "HtoD", 2: "DtoH", 8: "DtoD", 9: "HtoH", 10: "DtoD"}
_PID: Final = ~0xFFFFFF  # A global thread id is the machine, the process id and the thread id.
_MOST_TEXT: Final = 1 << 20
_NAMED: Final = {_CALLS: ("nameId",), _KERNELS: ("mangledName", "demangledName")}
_AT_ONCE: Final = 10_000


class NsysExport:
    """Reads one export."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._collector = Collector(self._path)
        self._tables: dict[str, frozenset[str]] = {}

    def read(self) -> Operations:
        """The operations, on the clock of the profiled host: UTC."""
        try:
            with closing(self._opened()) as database:
                return self._read(database)
        except (sqlite3.Error, OverflowError) as error:
            raise ProfileError(f"{self._path} is damaged: {error}") from error

    def _opened(self) -> sqlite3.Connection:
        database = sqlite3.connect(f"file:{quote(self._path)}?mode=ro&immutable=1", uri=True)
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_TEXT)
        database.text_factory = lambda text: text.decode("utf-8", "replace")
        # The schema is the file's: it may call no function and name no other table.
        for pragma in ("trusted_schema = off", "query_only = on", "mmap_size = 0"):
            database.execute(f"pragma {pragma}")
        return database

    def _read(self, database: sqlite3.Connection) -> Operations:
        self._look(database)
        strings = self._strings(database)
        started = self._started(database)
        self._calls(database, strings)
        self._device(database, strings)
        found = self._collector.operations()
        found.called[:] += started
        return found

    def _look(self, database: sqlite3.Connection) -> None:
        """Which of our tables there are, as plain tables; the version is checked."""
        listed = database.execute("select name, type, sql from sqlite_master").fetchmany(_AT_ONCE)
        for name, kind, sql in listed:
            plain = kind == "table" and isinstance(sql, str) and "virtual" not in sql[:40].lower()
            if plain and name in (
                *(_KERNELS, _COPIES, _SETS, _GRAPHS, _CALLS),
                *(_VERSIONS, _STARTED, "StringIds"),
            ):
                columns = database.execute(f'pragma table_xinfo("{name}")').fetchall()
                # One that is computed may take any time.
                self._tables[name] = frozenset(c[1] for c in columns if c[-1] == 0)
        if _VERSIONS not in self._tables:
            raise ProfileError(f"{self._path} is no SQLite export of nsys: it has no {_VERSIONS}")
        rows = database.execute(f"select name, value from {_VERSIONS}").fetchmany(_AT_ONCE)
        values = {str(name): str(value) for name, value in rows}
        whole = values.get("EXPORT_SCHEMA_VERSION", "")
        major = values.get("EXPORT_SCHEMA_VERSION_MAJOR", whole.partition(".")[0])
        if not major.isdecimal() or int(major[:9]) not in MAJORS:
            raise ProfileError(
                f"{self._path} has version {(whole or major)[:20] or '?'} of the nsys export; "
                f"{' and '.join(map(str, MAJORS))} are known"
            )
        if _CALLS not in self._tables:
            raise ProfileError(f"{self._path} has no calls of CUDA; profile with --trace cuda")

    def _rows(
        self, database: sqlite3.Connection, table: str, columns: tuple[str, ...]
    ) -> Iterator[tuple[Any, ...]]:
        """Rows of a table; NULL for columns that this version does not have."""
        if table not in self._tables:
            return
        names = ", ".join(
            f'"{name}"' if name in self._tables[table] else "null" for name in columns
        )
        cursor = database.execute(f"select {names} from {table}")
        while rows := cursor.fetchmany(_AT_ONCE):
            yield from rows

    def _strings(self, database: sqlite3.Connection) -> dict[int, str]:
        """The names of functions and kernels; there may be millions of other texts."""
        used = [
            f'select "{column}" from {table}'
            for table, columns in _NAMED.items()
            for column in columns
            if column in self._tables.get(table, ())
        ]
        if "StringIds" not in self._tables or not used:
            return {}
        cursor = database.execute(
            f"select id, value from StringIds where id in ({' union '.join(used)})"
        )
        found: dict[int, str] = {}
        while rows := cursor.fetchmany(_AT_ONCE):
            found |= {
                number: base_name(text)
                for number, text in rows
                if isinstance(number, int) and isinstance(text, str)
            }
            if len(found) > MOST_NAMES:
                raise ProfileError(f"{self._path} has more than {MOST_NAMES:,} names")
        return found

    def _fits(self, number: int) -> bool:
        return 0 <= number < MOST_CORRELATION

    def _started(self, database: sqlite3.Connection) -> int:
        rows = self._rows(database, _STARTED, ("utcEpochNs",))
        started = next((value for (value,) in rows), None)
        return started if isinstance(started, int) and 0 <= started < MOST_NS else 0

    def _calls(self, database: sqlite3.Connection, strings: dict[int, str]) -> None:
        columns = ("globalTid", "correlationId", "start", "nameId")
        for row in self._rows(database, _CALLS, columns):
            if not all(isinstance(value, int) for value in row):
                continue
            thread, correlation, start, name = row
            api = strings.get(name, "")
            if self._fits(correlation) and 0 <= start < MOST_NS and queues(api):
                graph = "GraphLaunch" in api
                self._collector.call(thread & _PID, thread, correlation, start, graph=graph)

    def _device(self, database: sqlite3.Connection, strings: dict[int, str]) -> None:
        always = ("globalPid", "correlationId", "start", "end")
        sides = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
        names = ("mangledName", "demangledName")
        for *row, mangled, demangled in self._rows(database, _KERNELS, (*always, *sides, *names)):
            name = strings.get(demangled) or strings.get(mangled)
            if name is not None and all(isinstance(v, int) and v > 0 for v in row[4:]):
                shape = shape_of(row[4:10])
                size = math.prod(row[4:10]) % MOST_NS
                self._ran(row, (LAUNCH, self._collector.name(name), size, shape))
        for *row, bytes_, copied in self._rows(database, _COPIES, (*always, "bytes", "copyKind")):
            direction = self._collector.name(_DIRECTIONS.get(copied, ""))
            self._ran(row, (COPY, direction, _size(bytes_), 0))
        for *row, bytes_ in self._rows(database, _SETS, (*always, "bytes")):
            self._ran(row, (SET, self._collector.name(""), _size(bytes_), 0))
        for row in map(list, self._rows(database, _GRAPHS, always)):
            self._ran(row, (GRAPH, -1, 0, 0))

    def _ran(self, row: Any, what: tuple[int, int, int, int]) -> None:
        process, correlation, start, end = row[:4]
        if not all(isinstance(value, int) for value in row[:4]):
            return
        if self._fits(correlation) and 0 <= start <= end < MOST_NS:
            self._collector.ran(process & _PID, correlation, what, start, end)


def _size(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value < MOST_NS else 0
