"""Questions over many nodes: a session of each in tasks, then a last step over their rows."""

from typing import Final

DEFAULT: Final = "local[*]"  # Where tasks run: Spark on this machine.
