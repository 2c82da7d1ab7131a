"""Equations over any store, none of which needs the truth: each yields what does not balance."""

import math
import random
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from cotenant.query.engine.session import Session
from cotenant.query.questions.loader import Question, questions
from tests.books.registry import REGISTRY, SHARES, Columns

Rows = list[dict[str, Any]]
MOST_ROWS = 100_000
MOST_TENANTS = 3  # Each has a session of its own.


@dataclass(frozen=True)
class Imbalance:
    """An equation that does not hold."""

    equation: str
    where: str  # A question and its column, or a table.
    what: str


def _limited(question: Question) -> bool:
    return any(parameter.name == "limit" for parameter in question.params)


class Books:
    """The answers of one store: a session for each window and tenant, each question asked once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._stack = ExitStack()
        self._sessions: dict[tuple[Any, ...], Session] = {}
        self._answers: dict[tuple[Any, ...], Rows] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def ask(
        self,
        question: Question,
        tenant: str | None = None,
        from_ns: int | None = None,
        to_ns: int | None = None,
    ) -> Rows:
        """All rows of the answer, as ``cotenant ask`` computes it."""
        key = (question.name, tenant, from_ns, to_ns)
        if key not in self._answers:
            limits = ["limit=1000000"] if _limited(question) else []
            shown, read = ({tenant}, None) if question.about_others else (None, tenant)
            sql = question.render(limits, shown if tenant else None)
            self._answers[key] = self.sql(sql, read, from_ns, to_ns)
        return self._answers[key]

    def columns(self, question: Question) -> list[str]:
        """The names of the answer's columns."""
        answer = self._session().ask(question.render(["limit=1"] if _limited(question) else []))
        return list(answer.table.column_names)

    def sql(self, sql: str, tenant: str | None = None, *window: int | None) -> Rows:
        """All rows of a statement."""
        return self._session(tenant, *window).ask(sql, rows=MOST_ROWS).rows()

    def _session(self, tenant: str | None = None, *window: int | None) -> Session:
        from_ns, to_ns = window or (None, None)
        key = (tenant, from_ns, to_ns)
        if key not in self._sessions:
            session = Session(self.root, tenant=tenant, from_ns=from_ns, to_ns=to_ns)
            self._sessions[key] = self._stack.enter_context(session)
        return self._sessions[key]


def bounds(books: Books) -> tuple[int, int]:
    """From the first row of the store until after the last."""
    tables = ("cuda_events", "nccl_events", "host_events", "io_events", "totals", "gpu_memory")
    union = " union all ".join(f"select timestamp_ns from {table}" for table in tables)
    (row,) = books.sql(f"select min(timestamp_ns) as a, max(timestamp_ns) as b from ({union})")
    return row["a"], row["b"] + 1


def _near(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return (left or 0) == (right or 0)
    if isinstance(left, float) or isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-6, abs_tol=1e-9)
    return bool(left == right)


def registered(books: Books) -> Iterator[Imbalance]:
    """Each column of each question has an equation, or a reason why it has none."""
    for name, question in questions().items():
        found = set(books.columns(question))
        known = REGISTRY[name].names if name in REGISTRY else set()
        for column in sorted(found ^ known):
            yield Imbalance("registered", f"{name}.{column}", "unknown or gone")


def parts(books: Books) -> Iterator[Imbalance]:
    """In each row: a part is at most its whole, a share at most 1, a mean its sum by its count."""
    for name, question in questions().items():
        columns = REGISTRY.get(name, Columns())
        for row in books.ask(question):
            for less, more in columns.at_most:
                if None not in (row[less], row[more]) and row[less] > row[more] * (1 + 1e-9):
                    yield Imbalance("parts", f"{name}.{less}", f"> {more}: {row}")
            for some, whole in columns.parts:
                if sum(row[part] or 0 for part in some) > (row[whole] or 0):
                    yield Imbalance("parts", f"{name}.{whole}", f"< its parts: {row}")
            for mean, (total, count) in columns.means.items():
                if row[count] and abs(row[mean] - row[total] / row[count]) > 1:
                    yield Imbalance("parts", f"{name}.{mean}", f"!= {total} / {count}: {row}")
            for ratio, (above, below, factor) in columns.ratios.items():
                wanted = factor * (row[above] or 0) / row[below] if row[below] else None
                if not _close(row[ratio], wanted):
                    yield Imbalance("parts", f"{name}.{ratio}", f"not {wanted}: {row}")
            for column, value in row.items():
                limit = 1 if column in SHARES else 100.05 if column.endswith("_percent") else None
                if limit and value is not None and not -1e-9 <= value <= limit * (1 + 1e-9):
                    yield Imbalance("parts", f"{name}.{column}", f"{value} > {limit}: {row}")


def _folded(columns: Columns, answers: list[Rows]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Rows of all answers by their keys, with what adds up added up."""
    found: dict[tuple[Any, ...], dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for row in (row for rows in answers for row in rows):
        for name in (*columns.add, *columns.most, *columns.least):
            if row[name] is not None:
                found[tuple(row[key] for key in columns.keys)][name].append(row[name])
    fold = dict.fromkeys(columns.add, sum) | dict.fromkeys(columns.most, max)
    fold |= dict.fromkeys(columns.least, min)
    return {
        key: {name: fold[name](values) for name, values in by_name.items()}
        for key, by_name in found.items()
    }


def halves(books: Books, seed: int) -> Iterator[Imbalance]:
    """Two halves of a window are the whole, with its ends given and without."""
    first, last = bounds(books)
    middle = random.Random(seed).randrange(first + 1, max(last - 1, first + 2))
    for name, question in questions().items():
        columns = REGISTRY.get(name, Columns())
        if not columns.add + columns.most + columns.least:
            continue
        for start, end in ((first, last), (None, None)):
            whole = _folded(columns, [books.ask(question, None, start, end)])
            cut = books.ask(question, None, start, middle)
            cut_halves = _folded(columns, [cut, books.ask(question, None, middle, end)])
            for key in {**whole, **cut_halves}:
                for column in (*columns.add, *columns.most, *columns.least):
                    left = whole.get(key, {}).get(column)
                    right = cut_halves.get(key, {}).get(column)
                    if not _near(left, right):
                        what = f"{key}: {left} in all, {right} in halves at {middle}"
                        yield Imbalance("halves", f"{name}.{column}", what)


def of_rows(books: Books, seed: int) -> Iterator[Imbalance]:
    """What a question says of rows is what they say, in the whole and in each half of it."""
    first, last = bounds(books)
    middle = random.Random(seed).randrange(first + 1, max(last - 1, first + 2))
    for name, question in questions().items():
        columns = REGISTRY.get(name, Columns())
        if columns.rows is None:
            continue
        for window in ((None, None), (first, middle), (middle, last)):
            truth = {
                tuple(row[key] for key in columns.keys): row
                for row in books.sql(columns.rows, None, *window)
            }
            for row in books.ask(question, None, *window):
                wanted = truth.get(tuple(row[key] for key in columns.keys), {})
                for column in (wanted.keys() or columns.of_rows) - set(columns.keys):
                    if not _close(row[column], wanted.get(column)):
                        what = f"{row[column]} for {wanted.get(column)} in {window}: {row}"
                        yield Imbalance("rows", f"{name}.{column}", what)


def of_answers(books: Books) -> Iterator[Imbalance]:
    """What two questions have is the same in both."""
    for name, question in questions().items():
        columns = REGISTRY.get(name, Columns())
        for column, (other, source) in columns.answers.items():
            shared = [key for key in columns.keys if key in REGISTRY[other].keys]
            sums: dict[tuple[Any, ...], int] = defaultdict(int)
            for row in books.ask(questions()[other]):
                sums[tuple(row[key] for key in shared)] += row[source] or 0
            for row in books.ask(question):
                wanted = sums[tuple(row[key] for key in shared)]
                if (row[column] or 0) != wanted:
                    yield Imbalance("answers", f"{name}.{column}", f"{row} for {wanted} of {other}")


def of_one_tenant(books: Books, seed: int) -> Iterator[Imbalance]:
    """The answer about a tenant is the part of the whole answer that is about it."""
    names = [
        row["tenant"] for row in books.sql("select distinct tenant from containers order by 1")
    ]
    chosen = set(random.Random(seed).sample(names, min(len(names), MOST_TENANTS)))
    for name, question in questions().items():
        owner = "victim" if name == "interference" else "tenant"
        columns = REGISTRY.get(name, Columns())
        if not columns.keys or owner not in columns.keys:
            continue
        whole = books.ask(question)
        for tenant in sorted({row[owner] for row in whole} & chosen):
            own = {
                tuple(row[k] for k in columns.keys): row for row in whole if row[owner] == tenant
            }
            alone = {
                tuple(row[k] for k in columns.keys): row for row in books.ask(question, tenant)
            }
            if own.keys() != alone.keys():
                what = f"{tenant}: {sorted(map(str, own.keys() ^ alone.keys()))}"
                yield Imbalance("of one tenant", f"{name}.{owner}", what)
            for key in own.keys() & alone.keys():
                for column in columns.names - set(columns.of_all):
                    if not _same(own[key][column], alone[key][column]):
                        what = f"{key}: {own[key][column]} of all, {alone[key][column]} alone"
                        yield Imbalance("of one tenant", f"{name}.{column}", what)


def _close(left: Any, right: Any) -> bool:
    """Whether they are the same number, but for two digits that a column is rounded to."""
    if left is None or right is None:
        return left is right
    return math.isclose(left, right, rel_tol=1e-6, abs_tol=0.006)


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return _near(left, right)
    return bool(left == right)


def mixes(books: Books) -> Iterator[Imbalance]:
    """A mix has each kind of operation once, and makes up the extent of its spans."""
    twice = books.sql(
        "select mix, kernel_name, size, count(*) as n from span_mixes group by all having n > 1",
    )
    for row in twice:
        yield Imbalance("mixes", "span_mixes", f"twice: {row}")
    counted = books.sql(
        "select s.tenant, sum(s.launches)::bigint as launches, sum(m.launches)::bigint as kinds "
        "from spans s join (select mix, node, sum(count) as launches from span_mixes "
        "where kernel_name not like '[%' group by all) m using (mix, node) group by all",
    )
    for row in counted:
        if row["launches"] != row["kinds"]:
            yield Imbalance("mixes", "span_mixes", f"of spans: {row}")


def times(books: Books) -> Iterator[Imbalance]:
    """The time of an operation is within its interval."""
    for row in books.sql("from operation_times where time_ns < low_ns or time_ns > high_ns"):
        yield Imbalance("times", "operation_times.time_ns", str(row))


def wall_clock(books: Books) -> Iterator[Imbalance]:
    """Shares are of the time that was recorded, whatever the rows in it."""
    sessions = books.sql("select node, started_ns, ended_ns from sessions")
    if not sessions or any(row["ended_ns"] is None for row in sessions):
        return
    by_node: dict[str, int] = defaultdict(int)
    for row in sessions:
        by_node[row["node"]] += row["ended_ns"] - row["started_ns"]
    for row in books.ask(questions()["gpu_use"]):
        if row["time_ns"] > max(by_node.values()) * 1.02 + 1e8:
            what = f"{row['time_ns']} of {max(by_node.values())} recorded"
            yield Imbalance("wall clock", "gpu_use.time_ns", what)


def shares(books: Books) -> Iterator[Imbalance]:
    """The shares of a GPU and what is idle are all of its time; one tenant has one share of it."""
    found: dict[str, list[float]] = defaultdict(list)
    idle = {}
    for row in books.ask(questions()["gpu_use"]):
        if row["gpu"] is not None and row["idle_share"] is not None:
            found[row["gpu"]].append(row["share"])
            idle[row["gpu"]] = row["idle_share"]
    for gpu, parts_of in found.items():
        if not math.isclose(sum(parts_of) + idle[gpu], 1, abs_tol=1e-6):
            yield Imbalance("shares", "gpu_use.share", f"{gpu}: {parts_of} and {idle[gpu]}")


def pairs(books: Books) -> Iterator[Imbalance]:
    """Two tenants share a GPU only where both have rows on it."""
    rows = books.sql(
        "select distinct c.tenant, e.gpu from cuda_events e join containers c using (cgroup_id) "
        "where e.gpu is not null",
    )
    used = defaultdict(set)
    for row in rows:
        used[row["tenant"]].add(row["gpu"])
    for name, one, other in (
        ("gpu_overlap", "tenant", "other"),
        ("interference", "victim", "aggressor"),
    ):
        for row in books.ask(questions()[name]):
            if row["gpu"] is not None and not (
                row["gpu"] in used[row[one]] and row["gpu"] in used[row[other]]
            ):
                yield Imbalance("pairs", f"{name}.gpu", str(row))


def symmetric(books: Books) -> Iterator[Imbalance]:
    """What a tenant shares with another, that one shares with it."""
    rows = books.ask(questions()["gpu_overlap"])
    found = {(row["tenant"], row["other"], row["gpu"]): row["overlap_ns"] for row in rows}
    for (tenant, other, gpu), overlap in found.items():
        if found.get((other, tenant, gpu)) != overlap:
            yield Imbalance("symmetric", "gpu_overlap.overlap_ns", f"{tenant}, {other}: {overlap}")


def io_bytes(books: Books) -> Iterator[Imbalance]:
    """Beside a tenant's requests, a neighbour has moved no more than it moved in all."""
    rows = books.sql(
        "select tenant, device, e.node, sum(bytes * weight)::bigint as moved from io_events e "
        "join containers using (cgroup_id) where op in ('read', 'write') group by all"
    )
    moved = {(row["tenant"], row["device"], row["node"]): row["moved"] for row in rows}
    for row in books.ask(questions()["io_delays"]):
        most = moved[row["neighbour"], row["device"], row["node"]]
        if (row["neighbour_bytes"] or 0) > (most or 0):
            yield Imbalance("io bytes", "io_delays.neighbour_bytes", f"{row} of {most}")


def of_one_answer(root: Path) -> list[Imbalance]:
    """What does not balance within each answer: a second for any store."""
    with Books(root) as books:
        return [
            *parts(books),
            *mixes(books),
            *times(books),
            *wall_clock(books),
            *pairs(books),
            *symmetric(books),
            *io_bytes(books),
        ]


def balances(root: Path, seed: int) -> list[Imbalance]:
    """All that does not balance in a store."""
    with Books(root) as books:
        return [
            *parts(books),
            *halves(books, seed),
            *of_rows(books, seed),
            *of_answers(books),
            *of_one_tenant(books, seed),
            *mixes(books),
            *times(books),
            *wall_clock(books),
            *shares(books),
            *pairs(books),
            *symmetric(books),
            *io_bytes(books),
        ]
