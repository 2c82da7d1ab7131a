"""Where the time of an operation is known from, best first."""

from typing import Final

WAITS: Final = "waits"  # The tenant's own waits: spans of which the end on the device is known.
IMPORTED: Final = "imported"  # A profiler's file; see cotenant.profiles.
EVENTS: Final = "events"  # The application's own CUDA events.
BORROWED: Final = "borrowed"  # The same kernel and size in another tenant of the host.
PRIOR: Final = "prior"  # What the host's other operations take; of copies, what a link moves.
NONE: Final = "none"
SOURCES: Final = (WAITS, IMPORTED, EVENTS, BORROWED, PRIOR, NONE)
OWN: Final = frozenset({WAITS, IMPORTED, EVENTS})
NUMBER: Final = {source: number for number, source in enumerate(SOURCES)}
