"""The page below a path of a reverse proxy, as in https://example.org/gpu/.

Proxies pass that path on, or take it off: both are understood. The page itself has relative links
alone, and needs not know where it is shown.
"""

import re
from typing import Final

from cotenant.errors import UsageError
from cotenant.views.web.guard import App, Receive, Scope, Send

_PATH: Final = re.compile(r"(/[\w.~-]+)*", re.ASCII)


def root_path(text: str) -> str:
    """The path without a slash at its end: "" for the root itself."""
    path = text.rstrip("/")
    if not _PATH.fullmatch(path) or "/.." in path:
        raise UsageError(f"--root-path {text} is no path; write one such as /gpu")
    return path


class Below:
    """Takes the proxy's path off each request that still has it."""

    def __init__(self, app: App, path: str) -> None:
        self._app = app
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http" and self._path:
            path = str(scope["path"])
            if path == self._path:
                await self._to_the_page(send)
                return
            if path.startswith(f"{self._path}/"):
                inner = path.removeprefix(self._path)
                scope = {**scope, "path": inner, "raw_path": inner.encode()}
        await self._app(scope, receive, send)

    async def _to_the_page(self, send: Send) -> None:
        """Its links are relative to a path that ends with a slash."""
        headers = [(b"location", f"{self._path}/".encode()), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 308, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
