"""The named questions, the interference matrix and the findings, for the panels of the page."""

from typing import Any, Final

from cotenant.query.promises import NAMES, promise
from cotenant.query.questions import questions as named
from cotenant.views.web.bound import about_others
from cotenant.views.web.worker import EXPLAIN, Worker

_TITLES: Final = {
    "kernels": "Top CUDA kernels by total time per container",
    "nccl": "What NCCL costs each container",
}
_INTERFERENCE: Final = """SELECT victim, aggressor, slowdown, ci_low, ci_high, p, samples, cause
  FROM interference
 ORDER BY slowdown DESC NULLS LAST
 LIMIT 200"""


def questions(tenant: str | None) -> dict[str, Any]:
    """Starting points for the SQL box: the promise first, then every named question."""
    found = [{"name": name, "title": _TITLES[name], "sql": promise(name).strip()} for name in NAMES]
    for question in named().values():
        title = f"{question.title}: {question.question}"
        found.append({"name": question.name, "title": title, "sql": question.render()})
    if tenant is not None:
        found = [one for one in found if not about_others(one["sql"])]
    return {"questions": found}


def interference(analyst: Worker, tenant: str | None) -> dict[str, Any]:
    """Who slows whom, or why that is not told."""
    if tenant is not None:
        return {"unknown": "this page is of one tenant"}
    return analyst.ask(_INTERFERENCE)


def findings(analyst: Worker, tenant: str | None) -> dict[str, Any]:
    """What `cotenant explain` says."""
    if tenant is not None:
        return {"unknown": "this page is of one tenant"}
    return analyst.ask(EXPLAIN)
