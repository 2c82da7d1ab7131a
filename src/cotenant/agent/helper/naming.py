"""Asking runtimes for names, where sockets may be opened; nothing waits for the answers.

A new cgroup is asked about the moment the kernel tells of it: a container that lives for
milliseconds is known to its runtime just as long. Those that were there before are surveyed.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from cotenant.agent.protocol.reports import LINE_MAX, Named, Report, Trouble
from cotenant.identity import NameQuestion, parse_path
from cotenant.identity.naming.backlog import Backlog
from cotenant.identity.naming.names import Names
from cotenant.identity.naming.resolver import Resolver, SourceSettings, default_resolver
from cotenant.identity.walk import Mount, mounts, walk

_WORKERS: Final = 8
_SURVEY_EVERY_S: Final = 1.0


def source_settings(environment: Mapping[str, str]) -> SourceSettings:
    """Sockets in their usual places, and where the runtimes' own variables say."""
    usual = SourceSettings()
    docker = environment.get("DOCKER_HOST", "").removeprefix("unix://")
    podman = environment.get("CONTAINER_HOST", "").removeprefix("unix://")
    return replace(
        usual,
        docker=(docker, *usual.docker) if docker.startswith("/") else usual.docker,
        podman=(podman, *usual.podman) if podman.startswith("/") else usual.podman,
    )


class Naming:
    """Keeps open questions, asks each when it is due, and passes on the answers."""

    def __init__(
        self,
        tell: Callable[[Report], None],
        named: Callable[[str, Names], None],
        resolver: Resolver | None = None,
        hierarchies: Callable[[], Iterable[Mount]] = mounts,
    ) -> None:
        self._named = named
        self._tell = tell
        self._resolver = resolver or default_resolver(
            [mount.directory for mount in mounts()], source_settings(os.environ)
        )
        self._hierarchies = hierarchies
        self._survey_due = False
        self._surveyed_s = -_SURVEY_EVERY_S
        self._surveyed: set[str] = set()  # Keys.
        self._backlog = Backlog()
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._stopping = False
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="naming")
        self._thread = threading.Thread(target=self._run, name="naming", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def stop(self) -> None:
        """Ask no more; answers under way are dropped."""
        self._stopping = True
        self._news.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def survey(self) -> None:
        """Ask about every cgroup that is there, and that no survey found before."""
        self._survey_due = True
        self._news.set()

    def ask(self, path: str) -> None:
        """A cgroup at this path wants a name."""
        identity = parse_path(path)
        if not self._resolver.serves(identity):
            return
        with self._lock:
            self._backlog.add(
                NameQuestion(identity.subject_path, identity, path), time.monotonic_ns()
            )
        self._news.set()

    def _run(self) -> None:
        while not self._stopping:
            # Whoever renames cgroups without end costs us one walk a second.
            if self._survey_due and time.monotonic() - self._surveyed_s >= _SURVEY_EVERY_S:
                self._survey_due = False
                try:
                    self._survey()
                except Exception as error:  # noqa: BLE001 - no path that a tenant makes may end this
                    self._tell(Trouble.by("naming", error))
                self._surveyed_s = time.monotonic()
            with self._lock:
                due = self._backlog.due(time.monotonic_ns())
                upcoming = self._backlog.next_ns()
            for question in due:
                # Where no more threads are allowed, it waits for those that are there.
                with contextlib.suppress(RuntimeError):
                    self._pool.submit(self._answer, question)
            if not due:
                wait = 1.0 if upcoming is None else (upcoming - time.monotonic_ns()) / 1e9
                self._news.wait(max(0.001, min(wait, 1.0)))
                self._news.clear()

    def _survey(self) -> None:
        """One question for all cgroups of a container, in whatever hierarchies they are."""
        paths: dict[str, str] = {}
        for mount in self._hierarchies():
            for cgroup in walk(mount):  # From the top: the container's own comes first.
                paths.setdefault(parse_path(cgroup.path).subject_path, cgroup.path)
        for key in paths.keys() - self._surveyed:
            self.ask(paths[key])
        self._surveyed = set(paths)

    def _answer(self, question: NameQuestion) -> None:
        try:
            names = self._resolver.lookup(question.identity, question.path)
        except Exception as error:  # noqa: BLE001 - what a runtime says is not ours to foresee
            names = None
            text = f"cannot name {question.path}: {error or type(error).__name__}"
            self._tell(Trouble("naming", text[:LINE_MAX]))
        with self._lock:
            complete = names is not None and names.complete
            self._backlog.settle(question.key, complete=complete, now_ns=time.monotonic_ns())
        self._news.set()
        if names is not None and not self._stopping:
            self._named(question.key, names)
            self._tell(Named(question.key, names, time.time_ns()))
