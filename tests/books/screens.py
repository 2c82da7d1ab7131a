"""What each number of every other surface is, and equations of the screens that draw them."""

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from cotenant.query.engine.session import Session
from cotenant.query.findings.explain import explain
from cotenant.query.questions.loader import questions
from cotenant.query.screens.activity import collectives_sql, kernels_sql, tenants_sql
from cotenant.query.screens.summary import summary
from cotenant.query.screens.tenants import tenants
from cotenant.schema.families import FAMILIES
from cotenant.views.cli import VERBS
from cotenant.views.metrics import Metrics
from cotenant.views.web.api import Api
from tests.books.equations import Books, Imbalance, bounds

# What each column is: how it is checked, or why it has no equation.
HALVES = "two halves of a window are the whole"
ROWS = "is the sum of the rows"
TOTALS = "is the sum of totals"
LOSSES = "is the sum of losses"
NAME = "names the row"
LEVEL = "is a level, not a sum"
STATE = "is of the recorder, the disk or the store, now"
SCREENS = {
    "page": {"tenant": NAME}
    | dict.fromkeys(
        ("gpu_share", "work_ns", "gpu_time_low_ns", "queued_share", "gpu_time", "gpu_guessed"),
        "is gpu_use's, of all GPUs that were used",
    )
    | dict.fromkeys(
        ("launches", "cuda_ns", "copied_bytes", "nccl_calls", "nccl_ns", "cpu_ns", "wait_ns",
         "disk_bytes", "net_bytes", "retransmits"), HALVES,
    )
    | dict.fromkeys(("gpu_bytes", "lost", "shed"), LEVEL),
    "summary": dict.fromkeys(("tenant", "container_id"), NAME)
    | dict.fromkeys(("launches", "copied_bytes", "waited_ns", "nccl_calls"), ROWS)
    | {"most_launched": "is the first of several"},
    "tenants": dict.fromkeys(
        ("tenant", "container_id", "name", "pod", "namespace", "unit", "slurm_job", "cgroup_id",
         "node"), NAME,
    )
    | dict.fromkeys(FAMILIES, ROWS)
    | dict.fromkeys(("first_seen_ns", "last_seen_ns"), "is of a single row"),
    "metrics": {
        "cotenant_launches": TOTALS, "cotenant_calls": TOTALS, "cotenant_call_seconds": TOTALS,
        "cotenant_moved_bytes": TOTALS, "cotenant_gpu_queued_seconds": "is the sum of gpu_seconds",
        "cotenant_call_duration_seconds": TOTALS, "cotenant_gpu_memory_bytes": LEVEL,
        "cotenant_tenant_info": NAME,
    }
    | dict.fromkeys(
        ("cotenant_gpu_share", "cotenant_gpu_idle_share", "cotenant_gpu_work_ratio",
         "cotenant_gpu_time_low_ratio", "cotenant_gpu_time_high_ratio"),
        "is gpu_use's, of the last minute",
    )
    | {f"cotenant_events_{fate}": LOSSES for fate in ("seen", "stored", "shed", "lost")}
    | dict.fromkeys(
        ("cotenant_unseen_seconds", "cotenant_unseen_events", "cotenant_incomplete_seconds"),
        "is a union of gaps, as in the footer",
    )
    | dict.fromkeys(
        ("cotenant_newest_total_timestamp_seconds", "cotenant_kernel_program_seconds",
         "cotenant_kernel_events_left_to_totals", "cotenant_unrecorded_info",
         "cotenant_left_behind_info", "cotenant_missing_segments", "cotenant_disk_free_bytes",
         "cotenant_disk_bytes"), STATE,
    ),
}  # fmt: skip
# Where each command and each endpoint of the page has its numbers from.
SURFACES = {
    "ask": "questions", "sql": "tables", "explain": "findings", "record": "summary",
    "tenants": "tenants", "top": "page", "serve": "endpoints", "export": "tables, findings, page",
    "demo": "summary", "pull": "tables", "ship": "tables",
    "import": "measured by the file: tests/unit/profiles/test_compared.py has the equations",
}  # fmt: skip
NO_NUMBERS = ("doctor", "health", "sim", "completion", "help")
ENDPOINTS = {
    "tables": "page", "interference": "questions", "findings": "findings", "fleet": "questions",
    "questions": "names only", "sql": "tables", "status": "tenants", "event": "a single row",
    "cell": "single rows", "tile": "is drawn of rows", "queued": "is drawn of queued",
    "strip": "is drawn of rows",
}  # fmt: skip


def _scraped(books: Books) -> dict[str, Any]:
    text = Metrics(raw=True).scrape(lambda: Session(books.root)).decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def registered_surfaces(books: Books) -> Iterator[Imbalance]:
    """Each column of a screen, each series, command and endpoint is known here."""
    with Session(books.root) as session:
        found = {
            "page": set(session.ask(tenants_sql(*bounds(books))).table.column_names),
            "summary": set(summary(session).table.column_names),
            "tenants": set(tenants(session).table.column_names),
            "metrics": set(_scraped(books)),
        }
    for surface, names in found.items():
        for name in sorted(names ^ SCREENS[surface].keys()):
            yield Imbalance("registered", f"{surface}.{name}", "unknown or gone")
    for name in sorted(set(VERBS) ^ {*SURFACES, *NO_NUMBERS}):
        yield Imbalance("registered", f"command {name}", "unknown or gone")
    endpoints = {path.rpartition("/")[2] for path in Api.endpoints(Api.__new__(Api))}
    for name in sorted(endpoints ^ ENDPOINTS.keys()):
        yield Imbalance("registered", f"endpoint {name}", "unknown or gone")


def _worth(books: Books, start: int, end: int) -> Counter[tuple[str, str]]:
    """What the page has of each tenant, times the length of the window."""
    found: Counter[tuple[str, str]] = Counter()
    added = [name for name, what in SCREENS["page"].items() if what == HALVES]
    for row in books.sql(tenants_sql(start, end)):
        for name in added:
            found[row["tenant"], name] += (row[name] or 0) * (end - start) / 1e9
    return found


def page_halves(books: Books, seed: int) -> Iterator[Imbalance]:
    """What the page adds up of two halves is what it adds up of the whole."""
    first, last = bounds(books)
    middle = Random(seed).randrange(first + 1, max(last - 1, first + 2))
    whole = _worth(books, first, last)
    parts = _worth(books, first, middle) + _worth(books, middle, last)
    for key in whole.keys() | parts.keys():
        if abs(whole[key] - parts[key]) > 1e-6 * abs(whole[key]) + 2:
            what = f"{key[0]}: {whole[key]} in all, {parts[key]} in halves at {middle}"
            yield Imbalance("halves", f"page.{key[1]}", what)


def page_tables(books: Books) -> Iterator[Imbalance]:
    """The page's tables of kernels and collectives have the calls of the questions."""
    first, last = bounds(books)
    calls = {
        (row["tenant"], row["op"]): row["calls"]
        for row in books.sql(
            "select tenant, op, sum(weight)::bigint as calls from nccl_events "
            "join containers using (cgroup_id) group by all"
        )
    }
    for row in books.sql(collectives_sql(first, last, limit=1000)):
        if row["calls"] != calls.get((row["tenant"], row["op"])):
            yield Imbalance("page", "collectives.calls", f"{row} for {calls}")
    launched: Counter[tuple[str, str]] = Counter()
    for row in books.ask(questions()["top_kernels"]):
        launched[row["tenant"], row["kernel_name"]] = row["launches"]
    for row in books.sql(kernels_sql(first, last, limit=1000)):
        key = row["tenant"], row["kernel_name"]
        # Failed launches are calls, too.
        if key in launched and row["calls"] < launched[key]:
            yield Imbalance("page", "kernels.calls", f"{row} for {launched[key]}")


def metric_sums(books: Books) -> Iterator[Imbalance]:
    """Each counter of /metrics is a sum of what was recorded."""
    families = _scraped(books)
    for name, sql in {
        "cotenant_call_seconds": "select sum(sum_ns) / 1e9 from totals",
        "cotenant_gpu_queued_seconds": "select sum(queued_ns) / 1e9 from gpu_seconds",
        "cotenant_moved_bytes": "select sum(bytes) from totals where family <> 'cuda' "
        "or regexp_matches(function, '^cuMem(cpy|Prefetch)')",
        **{
            f"cotenant_events_{fate}": f"select sum({fate}) from losses"
            for fate in ("seen", "stored", "shed", "lost")
        },
    }.items():
        (row,) = books.sql(f"select (({sql}))::double as n")
        found = sum(s.value for s in families[name].samples if s.name.endswith("_total"))
        if abs(found - (row["n"] or 0)) > 1e-6 * abs(found) + 1e-6:
            yield Imbalance("metrics", name, f"{found} for {row['n']}")


def findings(books: Books) -> Iterator[Imbalance]:
    """A share and a confidence are of 1; costs of a victim's neighbours are at most its work."""
    with Session(books.root) as session:
        found = explain(session).findings
        spent = session.ask(
            "select tenant, sum(queued_ns) as ns from queued_time group by 1"
        ).rows()
    busy = {row["tenant"]: int(row["ns"]) for row in spent}
    lost: Counter[str] = Counter()
    for each in found:
        if not (0 <= each.share <= 1 and 0 <= each.confidence <= 1 and (each.cost_ns or 0) >= 0):
            yield Imbalance("findings", each.kind, str(each))
        if each.kind == "noisy neighbour":
            lost[each.victim] += round(each.cost_ns or 0)
    for victim, ns in lost.items():
        if ns > busy[victim]:
            yield Imbalance(
                "findings", "noisy neighbour.cost_ns", f"{victim}: {ns} of {busy[victim]}"
            )


def of_screens(books: Books, seed: int) -> Iterator[Imbalance]:
    """All of these."""
    yield from page_halves(books, seed)
    yield from page_tables(books)
    yield from metric_sums(books)
    yield from findings(books)
