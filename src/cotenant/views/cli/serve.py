"""``cotenant serve``: the page, on loopback."""

import argparse
import re
import sys
from pathlib import Path

from cotenant.errors import CotenantError, UsageError
from cotenant.store.layout import check_readable
from cotenant.views.cli import store_argument
from cotenant.views.cli.amounts import port

HELP = "Serve the page: the tenants' timeline, tables, SQL and /metrics. Needs no privilege."
EXAMPLES = """
examples:
  cotenant serve                              # prints the address to open
  cotenant serve --store /tmp/s --port 0      # any free port
  cotenant serve --tenant ml/train            # that tenant's rows, and no others
  cotenant serve --token-file /etc/cotenant/token    # for Prometheus, which scrapes /metrics
  ssh -L 7411:127.0.0.1:7411 gpu-node         # how to look from your desk
"""
_TOKEN = re.compile(r"[\w.~+/=-]{16,256}", re.ASCII)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this verb."""
    store_argument(parser)
    parser.add_argument("--tenant", metavar="NAME", help="serve what this tenant did, no more")
    parser.add_argument("--port", type=port, default=7411, help="default: 7411; 0 is any free one")
    parser.add_argument("--address", default="127.0.0.1", help="default: 127.0.0.1")
    parser.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="HOST",
        help="another name this server may be asked under",
    )
    parser.add_argument(
        "--token-file", type=Path, metavar="FILE", help="the token; default: a new one each time"
    )


def run(args: argparse.Namespace) -> int:
    """Serve until stopped."""
    try:
        from cotenant.views.web import server
    except ModuleNotFoundError as error:
        raise CotenantError(
            f"the page needs {error.name}; install it with pip install 'cotenant[look]'"
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
            "anyone on the way can read this: it is not encrypted; an ssh tunnel is better",
            file=sys.stderr,
        )
    server.serve(settings, listening)
    return 0


def _token(file: Path) -> str:
    try:
        token = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(f"cannot read the token in {file}: {why}; name another file") from error
    if not _TOKEN.fullmatch(token):
        raise UsageError(f"the token in {file} is no word of 16 to 256 letters, digits or -._~+/=")
    return token
