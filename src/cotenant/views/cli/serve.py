"""``cotenant serve``: serves the page, on loopback."""

import argparse
import os
import re
import socket
import stat
import sys
from pathlib import Path

from cotenant.errors import CotenantError, UsageError
from cotenant.printable import printable
from cotenant.query.engine.session import Session
from cotenant.query.screens.tenants import meant
from cotenant.store.layout import check_readable
from cotenant.store.nodes import Nodes
from cotenant.store.plain_file import read_plain
from cotenant.views.cli import store_argument
from cotenant.views.cli.amounts import port
from cotenant.views.web.reachable import reachable
from cotenant.views.window import add_node_argument

HELP = "Serve the page: timeline, tables, SQL and /metrics. Needs no privilege."
EXAMPLES = """
examples:
  cotenant serve                              # prints the address to open
  cotenant serve --store /tmp/s --port 0      # any free port
  cotenant serve --tenant ml/train            # only this tenant's rows
  cotenant serve --token-file /etc/cotenant/token    # a fixed token, for Prometheus
  cotenant serve --socket /run/cotenant/page.sock    # for members of the store's group
  cotenant serve --root-path /gpu --name example.org    # behind a proxy: https://example.org/gpu/
  ssh -L 7411:127.0.0.1:7411 gpu-node         # then open the address on your own machine
"""
_VARIABLE = "COTENANT_TOKEN"
_MOST_BYTES = 4096
# Its group may read it: that is how whoever scrapes gets it.
_TOO_OPEN = stat.S_IWGRP | stat.S_IROTH | stat.S_IWOTH
_TOKEN = re.compile(r"[\w.~+/=-]{16,256}", re.ASCII)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this verb."""
    store_argument(parser)
    parser.add_argument("--tenant", metavar="NAME", help="serve only this tenant's rows")
    add_node_argument(parser)
    parser.add_argument(
        "--port", type=port, default=7411, help="port; 0 picks a free one (default: 7411)"
    )
    parser.add_argument(
        "--address", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)"
    )
    parser.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="HOST",
        help="another host name to accept in requests; repeatable",
    )
    parser.add_argument(
        "--socket", type=Path, metavar="PATH", help="listen on this socket instead of a port"
    )
    parser.add_argument(
        "--root-path",
        metavar="PATH",
        help="path below which a reverse proxy shows the page; it may speak TLS, under any --name",
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="file with the access token (default: $COTENANT_TOKEN, else a new one at each start)",
    )
    parser.add_argument(
        "--raw", action="store_true", help="keep tenants' names as they are in /metrics"
    )
    parser.add_argument("--as-root", action="store_true", help="serve although you are root")


def run(args: argparse.Namespace) -> int:
    """Serve until stopped."""
    try:
        from cotenant.views.web import activation, server
        from cotenant.views.web.root_path import root_path
    except ModuleNotFoundError as error:
        raise CotenantError(
            f"the page needs the package {error.name}; run pip install 'cotenant[look]'"
        ) from error
    token, told_by = given_token(args.token_file)
    _check_user(args.as_root)
    settings = server.WebSettings(
        store=Path(args.store).absolute(),
        tenant=args.tenant,
        nodes=tuple(args.node),
        address=args.address if args.socket is None else "localhost",
        port=args.port,
        token=token or server.new_token(),
        names=tuple(args.name),
        socket=args.socket,
        raw=args.raw,
        root_path=None if args.root_path is None else root_path(args.root_path),
    )
    _check_asked(settings.store, args.tenant, args.node)
    listening = activation.passed_socket() or server.bound_socket(settings)
    rest = f" with the token in {told_by}" if token else f"#token={settings.token}"
    place = _place(listening, args.address, settings.root_path or "")
    shown = getattr(args, "named_store", args.store)
    print(f"serving {shown} {place}{rest}", flush=True)
    try:
        check_readable(settings.store)
    except CotenantError as error:
        print(f"nothing to show yet: {printable(str(error))}", file=sys.stderr)
    if not server.is_loopback(settings.address):
        print(
            "warning: the connection is not encrypted; an ssh tunnel is safer",
            file=sys.stderr,
        )
    server.serve(settings, listening)
    return 0


def _check_asked(store: Path, tenant: str | None, nodes: list[str]) -> None:
    """Refuse tenants and nodes that the store does not know; one that is not there yet may."""
    if tenant is None and not nodes:
        return
    try:
        with Session(store) as session:
            empty = not session.segments
    except CotenantError:
        return
    if empty:
        return
    Nodes(store, nodes).check()
    if tenant is not None:
        meant(store, tenant, nodes)


def _check_user(as_root: bool) -> None:
    if os.geteuid() == 0 and not as_root:
        raise UsageError(
            "serve answers whoever connects and needs no privilege; start it as a user who may "
            "read the store, such as `sudo -u cotenant cotenant serve`, or say --as-root"
        )


def _place(listening: socket.socket, address: str, root: str) -> str:
    if listening.family == socket.AF_UNIX:
        path = os.path.abspath(listening.getsockname())
        tunnel = f"ssh -L 7411:{path} {os.uname().nodename}"
        return f"on {path}; from your desk `{tunnel}`, then http://localhost:7411{root}/"
    address = reachable(address)
    host = f"[{address}]" if ":" in address else address
    return f"at http://{host}:{listening.getsockname()[1]}{root}/"


def given_token(file: Path | None) -> tuple[str | None, str]:
    """The token that somebody chose, if any, and where they wrote it; it is never shown."""
    # Not to be inherited by processes that answer questions.
    token, place = os.environ.pop(_VARIABLE, None), f"${_VARIABLE}"
    if file is not None:
        token, place = _read(file), str(file)
    if token is not None and not _TOKEN.fullmatch(token):
        raise UsageError(f"the token in {place} is no word of 16 to 256 letters, digits or -._~+/=")
    return token, place


def _read(file: Path) -> str:
    try:
        if stat.S_IMODE(file.stat().st_mode) & _TOO_OPEN:
            raise UsageError(f"others may read or change {file}; `chmod 640 {file}`")
        return read_plain(file, _MOST_BYTES).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(f"cannot read the token in {file}: {why}; name another file") from error
