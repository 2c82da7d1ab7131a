"""Who may ask: every request is checked here before anything else sees it.

A page from elsewhere can make a browser send requests to this port, under a name of its own
(DNS rebinding) or across origins. Host, Origin and token are what tells them from ours.
"""

import hmac
import json
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final

from cotenant.views.web.connections import KNOWN

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    )
)
HEADERS: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store"),
)
# The page itself tells nothing; what it shows it has to ask for.
_GUARDED: Final = ("/api/", "/metrics")
_PORT: Final = re.compile(r":\d+$", re.ASCII)
_READS: Final = frozenset({"GET", "HEAD"})
_WRITES: Final = {"/api/sql": "POST"}


class Guard:
    """Refuses what does not come from our page or with our token; hardens every answer."""

    def __init__(
        self,
        app: App,
        *,
        hosts: Iterable[str],
        token: str,
        any_port: bool = False,
        proxied: bool = False,
    ) -> None:
        self._app = app
        self._proxied = proxied  # A reverse proxy may speak TLS, and put its own name for ours.
        self._hosts = frozenset(hosts)
        self._any_port = any_port
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def hardened(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, hardened)
        else:
            await _refuse(hardened, *refusal)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Status and reason; None if the request may pass."""
        path, method = str(scope["path"]), str(scope["method"])
        hosts = _values(scope, b"host")
        if len(hosts) != 1 or not self._is_ours(hosts[0].lower()):
            return 403, "this server answers only under its own name; use the address it printed"
        if not all(self._is_origin(origin, hosts[0]) for origin in _values(scope, b"origin")):
            return 403, "requests of other sites are refused"
        if any(site in ("cross-site", "same-site") for site in _values(scope, b"sec-fetch-site")):
            navigates = _values(scope, b"sec-fetch-mode") == ["navigate"] and path == "/"
            if not navigates:
                return 403, "requests of other sites are refused"
        if method not in ({_WRITES[path]} if path in _WRITES else _READS):
            return 405, f"{method} is refused here"
        if path.startswith(_GUARDED) and not self._knows(scope):
            return 401, "the token is missing or wrong; open the address that the server printed"
        return None

    def _is_ours(self, host: str) -> bool:
        return (_PORT.sub("", host) if self._any_port else host) in self._hosts

    def _is_origin(self, origin: str, host: str) -> bool:
        scheme, _, place = origin.partition("://")
        if self._proxied:
            return scheme in ("http", "https") and self._is_ours(place)
        ours = place == host.lower() if self._any_port else place in self._hosts
        return ours and scheme == "http"

    def _knows(self, scope: Scope) -> bool:
        given = _values(scope, b"authorization")
        if len(given) != 1:
            return False
        scheme, _, token = given[0].partition(" ")
        scope[KNOWN] = scheme.lower() == "bearer" and hmac.compare_digest(
            token.strip().encode("utf-8", "replace"), self._token
        )
        return bool(scope[KNOWN])


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


async def _refuse(send: Send, status: int, reason: str) -> None:
    body = json.dumps({"error": reason}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
