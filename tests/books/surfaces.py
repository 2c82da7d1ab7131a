"""Equations between the surfaces that show one number: questions, screens, metrics, exports."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from prometheus_client.parser import text_string_to_metric_families

from cotenant.query.engine.session import Session
from cotenant.query.questions.loader import questions
from cotenant.query.screens.activity import tenants_sql
from cotenant.query.screens.summary import summary
from cotenant.schema import TABLES
from cotenant.views.cli import main
from cotenant.views.metrics import Metrics
from tests.books.equations import Books, Imbalance, bounds
from tests.books.screens import of_screens

# What a question, a screen and the rows themselves call one number: question, column, and the
# condition that the question puts on a row; then the screen's column of the summary and the page.
LAUNCHED = "op in ('launch', 'graph_launch') and result = 0"
NUMBERS = (
    ("launches", "cuda_events", LAUNCHED, "launch_rate", "launches"),
    ("copied_bytes", "cuda_events", "op = 'memcpy'", "copies", "total_bytes"),
    ("waited_ns", "cuda_events", "op = 'sync'", "sync_stalls", "waited_ns"),
    ("nccl_calls", "nccl_events", "true", "nccl_cost", "calls"),
)
_WORTH = {
    "launches": "weight",
    "copied_bytes": "bytes * weight",
    "waited_ns": "duration_ns * weight",
    "nccl_calls": "weight",
}


def _by_tenant(rows: list[dict[str, Any]], column: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in rows:
        found[row["tenant"]] += row[column] or 0
    return +found


def numbers(books: Books) -> Iterator[Imbalance]:
    """A question, the summary of a recording and the page agree with the rows."""
    with Session(books.root) as session:
        shown = summary(session).rows()
    first, last = bounds(books)
    page = _by_tenant(books.sql(tenants_sql(first, last)), "launches")
    for number, table, where, question, column in NUMBERS:
        rows = books.sql(
            f"select tenant, sum({_WORTH[number]})::bigint as n from {table} "
            f"join containers using (cgroup_id) where {where} group by tenant"
        )
        truth = _by_tenant(rows, "n")
        answers = {
            question: _by_tenant(books.ask(questions()[question]), column),
            "summary": _by_tenant(shown, number),
        }
        if number == "launches":
            seconds = (last - first) / 1e9
            answers["page"] = Counter({t: round(rate * seconds) for t, rate in page.items()})
        for surface, found in answers.items():
            if found != truth:
                yield Imbalance("numbers", f"{surface}.{number}", f"{found} for {truth}")


def kernels(books: Books) -> Iterator[Imbalance]:
    """Launches by kernel are the same in each question that has them."""
    first = books.ask(questions()["top_kernels"])
    second = books.ask(questions()["device_time"])
    top = {(r["tenant"], r["kernel_name"]): r["launches"] for r in first}
    for row in second:
        key = row["tenant"], row["kernel_name"]
        if key in top and row["launches"] > top[key]:
            what = f"{key}: {row['launches']} of {top[key]}"
            yield Imbalance("kernels", "device_time.launches", what)


def metrics(books: Books) -> Iterator[Imbalance]:
    """Counters of /metrics are the sums of totals and of GPU seconds."""
    text = Metrics(raw=True).scrape(lambda: Session(books.root)).decode()
    families = {f.name: f for f in text_string_to_metric_families(text)}
    calls = Counter(
        {
            (s.labels["tenant"], s.labels["family"], s.labels["function"]): round(s.value)
            for s in families["cotenant_calls"].samples
            if s.name.endswith("_total")
        }
    )
    rows = books.sql(
        "select tenant, family, function, sum(count)::bigint as n from totals "
        "join containers using (cgroup_id) group by all"
    )
    truth = Counter({(r["tenant"], r["family"], r["function"]): r["n"] for r in rows})
    if +calls != +truth:
        yield Imbalance("metrics", "cotenant_calls_total", f"{calls - truth} {truth - calls}")
    for sample in families["cotenant_gpu_queued_seconds"].samples:
        if sample.value < 0:
            yield Imbalance("metrics", "cotenant_gpu_queued_seconds_total", str(sample))


def _nine_digits(number: str) -> float:
    """Threads add up in no order, so that the last digits of a sum differ."""
    return float(f"{float(number):.9g}")


def command_line(books: Books) -> Iterator[Imbalance]:
    """``cotenant ask --json`` prints the rows of the answer, under the names of its columns."""
    for name, question in questions().items():
        if any(parameter.name == "limit" for parameter in question.params):
            continue
        said = StringIO()
        with redirect_stdout(said), redirect_stderr(StringIO()):
            code = main(["ask", name, "--json", "--store", str(books.root)])
        rows = json.loads(said.getvalue(), parse_float=_nine_digits)["rows"] if code == 0 else None
        expected = json.loads(json.dumps(books.ask(question)), parse_float=_nine_digits)
        if rows != expected:
            yield Imbalance("command line", name, f"{rows} for {expected}")


def exports(books: Books, place: Path) -> Iterator[Imbalance]:
    """An exported table has the rows of the table."""
    output = place / "exported"
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        code = main(["export", "parquet", "--store", str(books.root), "--output", str(output)])
    if code:
        yield Imbalance("exports", "parquet", f"exit code {code}")
    for path in sorted(output.glob("*.parquet")):
        if path.stem in TABLES:
            (row,) = books.sql(f"select count(*) as n from {path.stem}")
            if (found := pq.read_metadata(path).num_rows) != row["n"]:
                yield Imbalance("exports", path.stem, f"{found} rows of {row['n']}")


def disagreements(root: Path, place: Path, seed: int) -> list[Imbalance]:
    """All that two surfaces show differently."""
    with Books(root) as books:
        return [
            *numbers(books),
            *kernels(books),
            *metrics(books),
            *command_line(books),
            *exports(books, place),
            *of_screens(books, seed),
        ]
