"""The named questions, the interference matrix, the findings and the overview of many nodes."""

import contextlib
import re
import threading
import time
from typing import Any, Final

from cotenant.errors import CotenantError
from cotenant.query.engine.guard import about_others
from cotenant.query.questions.loader import questions as named
from cotenant.query.questions.promises import NAMES, promise
from cotenant.query.screens import fleet
from cotenant.query.screens.interference import PAIRS_SQL
from cotenant.views.web.node_readers import NodeReaders
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
_MOST_KEPT: Final = 64

_Asked = tuple[str | None, tuple[str, ...]]  # A question, and the nodes it is about.


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
    """Who slows whom and what stands out: computed over all there is, and kept for a while."""

    def __init__(self, analyst: Worker, readers: NodeReaders) -> None:
        self._analyst, self._readers = analyst, readers
        self._kept: dict[_Asked, tuple[str, float, dict[str, Any]]] = {}
        self._locks: dict[_Asked, threading.Lock] = {}
        self._lock = threading.Lock()

    def warm(self) -> None:
        """Begin now, so that the first visitor waits for less."""

        def ask() -> None:
            whole = self._readers.whole
            with contextlib.suppress(CotenantError):
                if len(whole.nodes()) <= fleet.MANY:
                    whole.look()
            for question in (EXPLAIN, PAIRS_SQL):
                with contextlib.suppress(CotenantError):
                    self._told(question, whole)

        threading.Thread(target=ask, name="warm", daemon=True).start()

    def interference(self, reader: Reader) -> dict[str, Any]:
        """Every pair of tenants on a GPU."""
        return self._told(PAIRS_SQL, reader)

    def findings(self, reader: Reader) -> dict[str, Any]:
        """What `cotenant explain` says."""
        return self._told(EXPLAIN, reader)

    def fleet(self, reader: Reader) -> dict[str, Any]:
        """What is known of each node."""
        return {name: self._told(sql, reader) for name, sql in fleet.questions().items()}

    def _told(self, question: str | None, reader: Reader) -> dict[str, Any]:
        if reader.tenant is not None:
            return {"unknown": "this page is of one tenant", "version": reader.version()}
        asked = (question, reader.named)
        with self._turn(asked):
            version = reader.version()
            known = self._kept.get(asked)
            began = time.monotonic()
            if known and (known[0] == version or began < known[1]):
                return known[2]
            # Of a store that has grown since, the page asks again.
            found = self._analyst.ask(question, reader.named) | {"version": version}
            now = time.monotonic()
            self._kept[asked] = (version, now + max(_KEPT_S, _REST * (now - began)), found)
            return found

    def _turn(self, asked: _Asked) -> threading.Lock:
        """Held by who computes this: others wait for the answer instead of asking too."""
        with self._lock:
            if len(self._locks) > _MOST_KEPT:
                self._locks.clear()
                self._kept.clear()
            return self._locks.setdefault(asked, threading.Lock())
