"""The `cotenant` command from its first line on: Ctrl-C ends it, even while it imports."""

import signal
import sys


def main() -> int:
    """Run the command line; the exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # There is nothing to clean up yet, and an exception would show where we were.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Whoever started us may have held it back until now.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    from cotenant.views.cli import main as command
    from cotenant.views.cli.ending import ends_at_once
    from cotenant.views.cli.output import guard_output

    guard_output()
    return command(sys.argv[1:], ends_at_once())
