"""Everything this package raises on purpose.

    CotenantError           exit code 1: the command failed
    ├── UsageError          exit code 2: the command line is wrong
    ├── Unsupported         exit code 3: this host lacks what recording needs
    ├── ProbeError          a probe could not be loaded or attached
    ├── StoreError          a store could not be written or read
    │   └── NewerStore      a later version wrote it
    └── QuestionError       the query is refused or failed
        └── TooLarge        it needs more memory than a query may use

The command line turns any of them into one line on stderr and ``exit_code``;
anything else that escapes is a bug and keeps its traceback.
"""


class CotenantError(Exception):
    """The root of the tree; its text says what failed, on what, and what to do."""

    exit_code = 1


class UsageError(CotenantError):
    """The command line is wrong."""

    exit_code = 2


class Unsupported(CotenantError):
    """This host lacks what recording needs."""

    exit_code = 3


class ProbeError(CotenantError):
    """A probe could not be loaded or attached."""


class StoreError(CotenantError):
    """A store could not be written or read."""


class NewerStore(StoreError):
    """A later version wrote the store."""


class QuestionError(CotenantError):
    """The query is refused or failed."""


class TooLarge(QuestionError):
    """The query needs more memory than a query may use."""
