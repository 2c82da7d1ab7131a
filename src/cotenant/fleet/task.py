"""What is done with one node, or with a few: a session over them, wherever the task runs."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from cotenant.errors import CotenantError, StoreError
from cotenant.query.engine.answer import Standing
from cotenant.query.engine.needs import needed
from cotenant.query.engine.session import QueryLimits, Session
from cotenant.query.engine.sight import Sight
from cotenant.query.engine.window import Window
from cotenant.release import VERSION
from cotenant.remote.cache import DEFAULT_BYTES
from cotenant.remote.fetch import far_store
from cotenant.remote.place import S3


@dataclass(frozen=True, slots=True)
class StoreView:
    """A store, what of it is looked at, and what looking may cost."""

    store: str  # A directory that every worker has under this path, or s3://.
    sight: Sight
    tenant: str | None = None
    from_ns: int | None = None
    to_ns: int | None = None
    limits: QueryLimits = field(default_factory=QueryLimits)
    cache_bytes: int = DEFAULT_BYTES  # Of what is fetched from s3://.

    @contextmanager
    def session(self, nodes: tuple[str, ...]) -> Iterator[Session]:
        """A session over these nodes, on this machine."""
        with ExitStack() as stack:
            yield stack.enter_context(
                Session(
                    self._directory(nodes, stack),
                    tenant=self.tenant,
                    from_ns=self.from_ns,
                    to_ns=self.to_ns,
                    nodes=nodes,
                    limits=self.limits,
                    sight=self.sight,
                )
            )

    def _directory(self, nodes: tuple[str, ...], stack: ExitStack) -> Path:
        if not self.store.startswith(S3):
            return Path(self.store)
        far = far_store(self.store, self.cache_bytes, nodes)
        directory = stack.enter_context(far.view())
        far.fill(directory, partial(needed, window=Window(self.from_ns, self.to_ns)))
        return directory


@dataclass(frozen=True, slots=True)
class Task:
    """Something to do with a session over these nodes; to be pickled and sent."""

    view: StoreView
    nodes: tuple[str, ...]
    work: Callable[[Session], Any]
    version: str = VERSION

    def run(self) -> Any:
        """Do it here."""
        if self.version != VERSION:
            raise StoreError(
                f"a worker has cotenant {VERSION}, and this is {self.version}; install one on all"
            )
        with self.view.session(self.nodes) as session:
            return self.work(session)


@dataclass(frozen=True, slots=True)
class NodeRows:
    """Rows of some nodes, by query, and how complete they are."""

    tables: Mapping[str, Any]
    standing: Standing


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of these queries, on a session that is given the rows of earlier ones."""

    queries: Mapping[str, str]  # SQL by name.
    named: frozenset[str]  # The tables that the whole statement names.
    given: Mapping[str, Any]

    def __call__(self, session: Session) -> NodeRows:
        """Ask them."""
        session.give(self.given)
        most = session.limits.rows
        tables = {}
        for name, sql in self.queries.items():
            answer = session.ask(sql, rows=most)
            if answer.truncated:
                raise StoreError(f"a node has more than {most:,} rows of {name}; query less time")
            tables[name] = answer.table
        return NodeRows(tables, session.standing(self.named))


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no result: the task would fail on another worker, too."""

    error: CotenantError


def attempt(task: Task) -> Any:
    """Its result, or a ``Failure``."""
    try:
        return task.run()
    except CotenantError as error:
        return Failure(error)
