"""The server: the page, its JSON and /metrics, on loopback unless told otherwise."""

import errno
import functools
import ipaddress
import os
import resource
import secrets
import socket
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from types import FrameType
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from cotenant.errors import CotenantError, UsageError
from cotenant.views import metrics
from cotenant.views.web import unix_socket
from cotenant.views.web.api import Api
from cotenant.views.web.connections import ACCEPTED_AT_ONCE, QUEUE, Connection, Connections
from cotenant.views.web.guard import App, Guard
from cotenant.views.web.reachable import is_wildcard, reachable
from cotenant.views.web.reader import Reader
from cotenant.views.web.root_path import Below
from cotenant.views.web.worker import Bounds, Worker

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_ANALYST: Final = Bounds(seconds=60.0, rows=1_000, memory_bytes=1 << 30)
_MOST_FILES: Final = 8192  # Segments under question, and connections.
_BELOW_RECORDERS: Final = 5  # Niceness: looking never takes a CPU from what is looked at.


@dataclass(frozen=True, slots=True)
class WebSettings:
    """What is served, where, and to whom."""

    store: Path
    tenant: str | None = None
    nodes: tuple[str, ...] = ()  # Empty: all of the store.
    address: str = "127.0.0.1"
    port: int = 7411
    token: str = ""
    names: tuple[str, ...] = ()  # Under which it may be asked, besides its address.
    socket: Path | None = None  # Where it listens instead of an address.
    raw: bool = False  # Whether /metrics has tenants' names as they are.
    root_path: str | None = None  # Where a reverse proxy shows it; None without one.
    bounds: Bounds = field(default_factory=Bounds)

    def hosts(self, port: int | None) -> list[str]:
        """The Host headers that are ours; port None is any, which a tunnel chose."""
        names = {_bracketed(self.address), *self.names}
        if is_wildcard(self.address):
            names |= {_bracketed(reachable(self.address)), socket.gethostname()}
        if is_loopback(self.address) or is_wildcard(self.address):
            names |= {"localhost", "127.0.0.1", "[::1]"}
        if port is None:
            return [name.lower() for name in names]
        return [f"{name.lower()}:{port}" for name in names] + (
            [name.lower() for name in names] if port == 80 else []
        )


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def is_loopback(address: str) -> bool:
    """Whether only this host can reach it."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def new_token() -> str:
    """What a visitor has to know."""
    return secrets.token_urlsafe(24)


def _static() -> dict[str, tuple[str, bytes]]:
    """Every file of the page by its path: a request names one of these, and never a file."""
    folder = resources.files("cotenant.views.web") / "static"
    found = {}
    for file in folder.iterdir():
        suffix = Path(file.name).suffix
        if suffix in _TYPES:
            found[f"/{file.name}"] = (_TYPES[suffix], file.read_bytes())
    found["/"] = found.pop("/index.html")
    return found


def _page(kind: str, content: bytes) -> Any:
    async def endpoint(_: Request) -> Response:
        return Response(content, headers={"content-type": kind})

    return endpoint


def _metrics(reader: Reader, *, raw: bool) -> Any:
    counters = metrics.Metrics(raw=raw)

    async def endpoint(_: Request) -> Response:
        try:
            lines = await run_in_threadpool(counters.scrape, reader.session)
        except CotenantError as error:
            return PlainTextResponse(f"{reader.words(error)}\n", 503)
        return Response(lines, headers={"content-type": metrics.CONTENT_TYPE})

    return endpoint


async def _unknown(_: Request, __: Exception) -> Response:
    return JSONResponse({"error": "there is nothing here"}, 404)


async def _broken(_: Request, __: Exception) -> Response:
    return JSONResponse({"error": "the server failed on this; its log says why"}, 500)


def application(settings: WebSettings, port: int | None, workers: tuple[Worker, Worker]) -> App:
    """The whole thing, guarded."""
    reader = Reader(settings.store, settings.tenant, settings.nodes)
    api = Api(reader, *workers)
    api.warm()
    routes = [Route(path, _page(*page)) for path, page in _static().items()]
    routes += [
        Route(path, endpoint, methods=[method])
        for path, (method, endpoint) in api.endpoints().items()
    ]
    routes.append(Route("/metrics", _metrics(reader, raw=settings.raw)))
    app = Starlette(routes=routes, exception_handlers={404: _unknown, Exception: _broken})
    proxied = settings.root_path is not None
    known = None if proxied else port
    guard = Guard(
        app,
        hosts=settings.hosts(known),
        token=settings.token,
        any_port=known is None,
        proxied=proxied,
    )
    return Below(guard, settings.root_path or "")


def bound_socket(settings: WebSettings) -> socket.socket:
    """The listening socket; port 0 takes any that is free."""
    listening = _bound(settings)
    # Whoever reads the address that is printed next may connect at once.
    listening.listen(QUEUE)
    return listening


def _bound(settings: WebSettings) -> socket.socket:
    if settings.socket is not None:
        return unix_socket.bound(settings.socket, settings.store)
    if not settings.address:
        raise UsageError("--address is empty; write 127.0.0.1, or 0.0.0.0 for every interface")
    family = socket.AF_INET6 if ":" in settings.address else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.address, settings.port))
    except OSError as error:
        listening.close()
        another = "--port" if error.errno in (errno.EADDRINUSE, errno.EACCES) else "--address"
        raise UsageError(
            f"cannot listen on {settings.address} port {settings.port}: {error.strerror}; "
            f"choose another with {another}"
        ) from error
    return listening


class _Server(uvicorn.Server):
    """Ends what is under way when it is told to end."""

    def __init__(
        self, config: uvicorn.Config, workers: tuple[Worker, Worker], path: Path | None
    ) -> None:
        super().__init__(config)
        self._workers, self._path = workers, path

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """On a signal: cancel running queries, so that shutdown does not wait for them."""
        for worker in self._workers:
            worker.stop()
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; more may wait in the kernel than are accepted at a turn."""
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(QUEUE)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Nothing is left of a socket with a path: a signal ends the process right afterwards."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        await super().shutdown(sockets)


def new_server(
    settings: WebSettings, listening: socket.socket, workers: tuple[Worker, Worker]
) -> uvicorn.Server:
    """A server that answers on this socket once it runs."""
    port = None if listening.family == socket.AF_UNIX else listening.getsockname()[1]
    connection: Any = functools.partial(Connection, Connections())
    config = uvicorn.Config(
        application(settings, port, workers),
        http=connection,
        backlog=ACCEPTED_AT_ONCE,
        proxy_headers=False,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        lifespan="off",
        ws="none",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=10,
    )
    return _Server(config, workers, settings.socket)


def serve(settings: WebSettings, listening: socket.socket) -> None:
    """Answer until told to stop."""
    os.nice(_BELOW_RECORDERS)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, _MOST_FILES), hard))
    workers = (
        Worker(settings.store, settings.tenant, settings.bounds),
        Worker(settings.store, settings.tenant, _ANALYST),
    )
    new_server(settings, listening, workers).run(sockets=[listening])
