"""A report that opens anywhere: one HTML file, without scripts, that loads nothing."""

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Final

from cotenant.query.engine.answer import Interval
from cotenant.query.engine.session import Session
from cotenant.query.findings.explain import Explanation, explain
from cotenant.query.findings.finding import Finding
from cotenant.query.screens import activity
from cotenant.query.screens.interference import PAIRS_SQL
from cotenant.query.screens.timeline.queued import queued_cells, too_many
from cotenant.views import text, units
from cotenant.views.export.html import Html, element, join
from cotenant.views.export.part import written
from cotenant.views.export.slowdowns import slowdowns
from cotenant.views.found import cost, sure
from cotenant.views.moments import interval

_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#b5528b", "#b98300", "#2f9bd6", "#8a5a34")
_GREY: Final = "#7b8492"
_KERNELS: Final = 20
_STRIPS: Final = 12
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


class _Colours:
    """A colour for each of the tenants with most work on a GPU; grey for the rest."""

    def __init__(self, most: Sequence[str]) -> None:
        self._of = dict(zip(sorted(most[: len(_COLOURS)]), _COLOURS, strict=False))

    def of(self, tenant: str | None) -> str:
        return f"--own: {self._of.get(tenant or '', _GREY)}"


def write_report(session: Session, output: Path) -> int:
    """The report, whole or not at all; how many findings it has."""
    found = explain(session)
    with written(output, "w") as out:
        out.write(_page(session, found))
    return len(found.findings)


def _page(session: Session, found: Explanation) -> str:
    covered = found.interval
    queued = {} if covered is None else _queued(session, covered)
    colours = _Colours(sorted(queued, key=lambda tenant: -sum(queued[tenant])))
    body = [element("h1", "cotenant: what stands out"), *_about(session, found)]
    if covered is not None:
        body += [_findings(found, colours), _slowdowns(session, colours), _flight(queued, colours)]
        body += [_kernels(session, covered, colours)]
    css = (resources.files("cotenant.views.export") / "report.css").read_text("utf-8")
    head = [
        Html('<meta charset="utf-8">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("title", "cotenant report"),
        Html(f"<style>{css}</style>"),
    ]
    whole = element(
        "html", element("head", *head), element("body", element("main", *body)), lang="en"
    )
    return f"<!doctype html>\n{whole}\n"


def _about(session: Session, found: Explanation) -> list[Html]:
    if found.interval is None:
        return [element("p", f"{session.store}: nothing was recorded in this window")]
    when = f"{interval(found.interval)}; {found.tenants} tenants"
    lacks = text.incompleteness(found.standing)
    lines = [element("p", line, class_="lacks") for line in lacks]
    return [element("p", when + ("" if lacks else "; complete")), *lines]


def _findings(found: Explanation, colours: _Colours) -> Html:
    cards = [_finding(each, colours) for each in found.findings]
    return join(cards or [element("p", "Nothing stands out.")])


def _finding(each: Finding, colours: _Colours) -> Html:
    facts = f"costs {each.victim} {cost(each)}; confidence {sure(each)} ({each.confidence:.2f})"
    lines = [element("p", line) for line in (facts, *each.evidence)]
    more = element("p", element("code", each.next))
    own = colours.of(each.victim)
    return element("article", element("h2", each.title), *lines, more, class_="finding", style=own)


def _slowdowns(session: Session, colours: _Colours) -> Html:
    found = slowdowns(session.ask(PAIRS_SQL).rows(), lambda tenant: _who(tenant, colours))
    return _section("Who slows whom", found) if found else Html("")


def _queued(session: Session, covered: Interval) -> dict[str, list[float]]:
    start_ns, end_ns = covered.start_ns, covered.end_ns + 1
    return {} if too_many(session, start_ns, end_ns) else queued_cells(session, start_ns, end_ns)


def _flight(queued: dict[str, list[float]], colours: _Colours) -> Html:
    if not queued:
        return Html("")
    most = sorted(queued, key=lambda tenant: -sum(queued[tenant]))[:_STRIPS]
    figures = [_strip(tenant, queued[tenant], colours) for tenant in sorted(most)]
    rest = len(queued) - len(most)
    more = [element("p", f"and {rest} tenants with less")] if rest else []
    return _section("Work in flight on a GPU", *figures, *more)


def _strip(tenant: str, parts: list[float], colours: _Colours) -> Html:
    share = 100 * sum(parts) / len(parts)
    bars = "".join(f"M{i} 1v{-part:.3f}h1v{part:.3f}z" for i, part in enumerate(parts) if part)
    own = colours.of(tenant)
    path = Html(f'<path d="{bars}" fill="var(--own)"/>')
    drawn = f'<svg viewBox="0 0 {len(parts)} 1" preserveAspectRatio="none" aria-hidden="true">'
    picture = Html(f"{drawn}{path}</svg>")
    caption = element("figcaption", _name(tenant), element("span", f"{share:.0f} % of the time"))
    return element("figure", caption, picture, style=own)


def _kernels(session: Session, covered: Interval, colours: _Colours) -> Html:
    sql = activity.kernels_sql(covered.start_ns, covered.end_ns + 1, limit=_KERNELS)
    answer = session.ask(sql)
    names = answer.table.column_names
    head = [element("th", units.heading(name), class_=_side(name)) for name in names]
    rows = [element("tr", *_cells(row, names, colours)) for row in answer.rows()]
    table = element("table", element("tr", *head), *rows)
    return _section("Where time in CUDA goes", table)


def _section(title: str, *content: Html) -> Html:
    """A part that may be wider than a phone: it scrolls, by keys too."""
    return element("section", element("h2", title), *content, tabindex="0", aria_label=title)


def _cells(row: dict[str, Any], names: Sequence[str], colours: _Colours) -> list[Html]:
    others = [element("td", text.cell(units.shown(n, row[n])), class_=_side(n)) for n in names[1:]]
    return [_who(row["tenant"], colours), *others]


def _side(name: str) -> str:
    return "number" if units.has_unit(name) or name == "calls" else ""


def _who(tenant: str, colours: _Colours) -> Html:
    return element("td", _name(tenant), style=colours.of(tenant))


def _name(tenant: str) -> Html:
    return element("span", element("i", ""), element("b", tenant))
