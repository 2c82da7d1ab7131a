"""``python -m cotenant``."""

import sys

# `-m` looks for modules first in the current directory, which another user may own.
if not sys.flags.safe_path:
    del sys.path[0]

from cotenant.start import main

sys.exit(main())
