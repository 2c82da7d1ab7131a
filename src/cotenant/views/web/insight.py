"""The named questions, the interference matrix and the findings, for the panels of the page."""

import contextlib
import re
import threading
import time
from typing import Any, Final

from cotenant.errors import CotenantError
from cotenant.query.engine.guard import about_others
from cotenant.query.questions.loader import questions as named
from cotenant.query.questions.promises import NAMES, promise
from cotenant.query.screens.interference import PAIRS_SQL
from cotenant.views.web.reader import Reader
from cotenant.views.web.worker import EXPLAIN, Worker

_TITLES: Final = {
    "kernels": "Top CUDA kernels by total time per container",
    "nccl": "What NCCL costs each container",
}
_WORD: Final = re.compile(r"\w+")
# A store that is being recorded is looked at anew no sooner, nor for more than a part of the time.
_KEPT_S: Final = 3.0
_REST: Final = 3.0


def questions(tenant: str | None) -> dict[str, Any]:
    """Starting points for the SQL box: the promise first, then every named question."""
    found = [{"name": name, "title": _TITLES[name], "sql": promise(name).strip()} for name in NAMES]
    for question in named().values():
        title = f"{question.title}: {question.question}"
        found.append({"name": question.name, "title": title, "sql": question.render()})
    if tenant is not None:
        found = [one for one in found if not about_others(_WORD.findall(one["sql"]))]
    return {"questions": found}


class Insight:
    """Who slows whom and what stands out: computed over the whole store, and kept for a while."""

    def __init__(self, analyst: Worker, reader: Reader) -> None:
        self._analyst, self._reader = analyst, reader
        self._kept: dict[str | None, tuple[str, float, dict[str, Any]]] = {}
        self._locks = {PAIRS_SQL: threading.Lock(), EXPLAIN: threading.Lock()}

    def warm(self) -> None:
        """Begin now, so that the first visitor waits for less."""

        def ask() -> None:
            for question in (EXPLAIN, PAIRS_SQL):
                with contextlib.suppress(CotenantError):
                    self._told(question)

        threading.Thread(target=ask, name="warm", daemon=True).start()

    def interference(self) -> dict[str, Any]:
        """Every pair of tenants on a GPU."""
        return self._told(PAIRS_SQL)

    def findings(self) -> dict[str, Any]:
        """What `cotenant explain` says."""
        return self._told(EXPLAIN)

    def _told(self, question: str | None) -> dict[str, Any]:
        if self._reader.tenant is not None:
            return {"unknown": "this page is of one tenant"}
        with self._locks[question]:
            version = self._reader.version()
            known = self._kept.get(question)
            began = time.monotonic()
            if known and (known[0] == version or began < known[1]):
                return known[2]
            found = self._analyst.ask(question)
            now = time.monotonic()
            self._kept[question] = (version, now + max(_KEPT_S, _REST * (now - began)), found)
            return found
