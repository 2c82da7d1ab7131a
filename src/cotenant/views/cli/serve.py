"""``cotenant serve``: serves the page, on loopback."""

import argparse
import re
import sys
from pathlib import Path

from cotenant.errors import CotenantError, UsageError
from cotenant.store.layout import check_readable
from cotenant.views.cli import store_argument
from cotenant.views.cli.amounts import port

HELP = "Serve the page: timeline, tables, SQL and /metrics. Needs no privilege."
EXAMPLES = """
examples:
  cotenant serve                              # prints the address to open
  cotenant serve --store /tmp/s --port 0      # any free port
  cotenant serve --tenant ml/train            # only this tenant's rows
  cotenant serve --token-file /etc/cotenant/token    # a fixed token, for Prometheus
  ssh -L 7411:127.0.0.1:7411 gpu-node         # then open the address on your own machine
"""
_TOKEN = re.compile(r"[\w.~+/=-]{16,256}", re.ASCII)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this verb."""
    store_argument(parser)
    parser.add_argument("--tenant", metavar="NAME", help="serve only this tenant's rows")
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
        "--token-file",
        type=Path,
        metavar="FILE",
        help="file with the access token (default: a new token at each start)",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until stopped."""
    try:
        from cotenant.views.web import server
    except ModuleNotFoundError as error:
        raise CotenantError(
            f"the page needs the package {error.name}; run pip install 'cotenant[look]'"
        ) from error
    settings = server.WebSettings(
        store=Path(args.store).absolute(),
        tenant=args.tenant,
        address=args.address,
        port=args.port,
        token=_token(args.token_file) if args.token_file else server.new_token(),
        names=tuple(args.name),
    )
    listening = server.bound_socket(settings)
    host = f"[{args.address}]" if ":" in args.address else args.address
    at = f"http://{host}:{listening.getsockname()[1]}/#token={settings.token}"
    print(f"serving {args.store} at {at}", flush=True)
    try:
        check_readable(settings.store)
    except CotenantError as error:
        print(f"nothing to show yet: {error}", file=sys.stderr)
    if not server.is_loopback(args.address):
        print(
            "warning: the connection is not encrypted; an ssh tunnel is safer",
            file=sys.stderr,
        )
    server.serve(settings, listening)
    return 0


def _token(file: Path) -> str:
    try:
        token = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(f"cannot read the token in {file}: {why}; name another file") from error
    if not _TOKEN.fullmatch(token):
        raise UsageError(f"{file}: a token is 16 to 256 letters, digits or -._~+/=; change it")
    return token
