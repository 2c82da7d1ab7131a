"""The line of a terminal that tells how far long work is; each takes the place of the last."""

import sys


def show(text: str = "") -> None:
    """Write it to stderr in place of the line that is there; nothing clears it."""
    sys.stderr.write(f"\r\x1b[K{text}")
    sys.stderr.flush()
