"""A process of its own for questions that anyone may write: it may fail, and only it."""

import contextlib
import multiprocessing
import os
import resource
import signal
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import Enum, auto
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from cotenant.confine.landlock import confine_writes
from cotenant.errors import CotenantError, QuestionError, TooLarge
from cotenant.query.engine.session import QueryLimits, Session
from cotenant.query.text.shell import option
from cotenant.views import text
from cotenant.views.web import plain
from cotenant.views.web.bound import opened

EXPLAIN = None  # In place of SQL: asks for the findings over the whole store.
_SAFE_PATH = "PYTHONSAFEPATH"
_GRACE_S = 3.0  # For a question to notice that its time is up.
_BELOW_PAGE = 10  # Niceness: the timeline is painted first.
_HEADROOM = 3 << 30  # Address space of Python, Arrow and DuckDB themselves.


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one question may cost."""

    seconds: float = 10.0
    rows: int = 1_000
    memory_bytes: int = 512 << 20
    answer_bytes: int = 8 << 20


class Outcome(Enum):
    """How a question ended."""

    ANSWERED = auto()
    REFUSED = auto()
    SPENT = auto()  # The process used up what it may have: the next question gets a new one.


class Worker:
    """Puts questions to a store in another process, one at a time; made anew when it dies."""

    def __init__(self, store: Path, tenant: str | None, bounds: Bounds) -> None:
        self._store, self._tenant, self._bounds = store, tenant, bounds
        self._lock = threading.Lock()
        self._waiting = threading.BoundedSemaphore(4)
        self._process: Any = None
        self._pipe: Any = None

    def ask(self, sql: str | None, nodes: tuple[str, ...] = ()) -> dict[str, Any]:
        """The answer of these nodes as JSON values; QuestionError in words if there is none."""
        if not self._waiting.acquire(blocking=False):
            raise QuestionError("the server is busy with other queries; try again in a moment")
        try:
            with self._lock:
                return self._ask(sql, nodes)
        finally:
            self._waiting.release()

    def _ask(self, sql: str | None, nodes: tuple[str, ...]) -> dict[str, Any]:
        pipe = self._started()
        try:
            pipe.send((sql, nodes))
            if not pipe.poll(self._bounds.seconds + _GRACE_S):
                raise QuestionError(
                    f"no answer after {self._bounds.seconds:g} s; query less time or fewer rows"
                )
            outcome, content = pipe.recv()
        except (EOFError, OSError) as error:
            self._discard()
            raise QuestionError(_too_much(self._bounds)) from error
        except QuestionError:
            self._discard()
            raise
        if outcome is not Outcome.ANSWERED:
            if outcome is Outcome.SPENT:
                self._discard()
            raise QuestionError(content)
        found: dict[str, Any] = content
        return found

    def _started(self) -> Any:
        if self._process is not None and self._process.is_alive():
            return self._pipe
        self._discard()
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_answer_all,
            args=(theirs, self._store, self._tenant, self._bounds),
            name="cotenant-questions",
            daemon=True,
        )
        with _safe_path(), _deaf_to_ctrl_c():
            self._process.start()
        theirs.close()
        return self._pipe

    def _discard(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
        self._process = self._pipe = None

    def stop(self) -> None:
        """End the process, whatever it does; who waits for its answer is told."""
        process = self._process
        if process is not None:
            process.kill()


@contextlib.contextmanager
def _safe_path() -> Iterator[None]:
    """A child begun meanwhile imports nothing from the directory that we were started in."""
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before


@contextlib.contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """A child begun meanwhile is ended by us alone; a terminal tells all its processes."""
    # It would be started with the child, and that lets signals through again.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _confine(bounds: Bounds) -> None:
    most = bounds.memory_bytes + _HEADROOM
    os.nice(_BELOW_PAGE)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    confine_writes(None)


def _answer_all(pipe: Connection, *what: Any) -> None:
    # Who asked may be gone, whether we wait for a query or have its answer.
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        _answer_each(pipe, *what)


def _answer_each(pipe: Connection, store: Path, tenant: str | None, bounds: Bounds) -> None:
    _confine(bounds)
    # What does not fit into memory is not to fill the disk instead.
    limits = QueryLimits(
        bounds.seconds, bounds.rows, bounds.memory_bytes, spill=False, guarded=True
    )
    session: Session | None = None
    looked_at: tuple[str, ...] = ()
    while True:
        sql, nodes = pipe.recv()
        try:
            if session is not None and nodes != looked_at:
                session.close()
                session = None
            if session is None:
                session, looked_at = opened(store, tenant, limits, nodes=nodes), nodes
            pipe.send((Outcome.ANSWERED, _answered(session, sql, bounds, nodes)))
        except MemoryError:
            pipe.send((Outcome.SPENT, _too_much(bounds)))
        except CotenantError as error:
            spent = isinstance(error, TooLarge)
            pipe.send((Outcome.SPENT if spent else Outcome.REFUSED, str(error)))
            session = session if isinstance(error, QuestionError) else None


def _explained(session: Session, nodes: tuple[str, ...]) -> dict[str, Any]:
    # Most pages ask for it once, and the first answer should not wait for it.
    from cotenant.query.findings.explain import explain

    found = explain(session)
    where = [option("--store", str(session.store)), *(option("--node", name) for name in nodes)]
    again = " ".join(where)
    return {
        "findings": [f.as_dict() | {"next": f"{f.next} {again}"} for f in found.findings],
        "maybes": [asdict(m) | {"next": f"{m.next} {again}"} for m in found.maybes],
        "unsampled": [asdict(pair) for pair in found.unsampled],
        "lacks": text.incompleteness(found.standing),
    }


def _answered(
    session: Session, sql: str | None, bounds: Bounds, nodes: tuple[str, ...]
) -> dict[str, Any]:
    if sql is None:
        return _explained(session, nodes)
    found = session.ask(sql)
    if found.table.nbytes > bounds.answer_bytes:
        raise QuestionError(
            f"the answer exceeds {bounds.answer_bytes >> 20} MiB; select fewer columns or rows"
        )
    return plain.answer(found)


def _too_much(bounds: Bounds) -> str:
    size = bounds.memory_bytes >> 20
    return (
        f"this needs more than the {size} MiB that a query may use; query less time or fewer rows"
    )
