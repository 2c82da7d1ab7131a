"""``python -m cotenant``."""

import sys

# `-m` looks for modules first where it was started, which may be anybody's directory.
if not sys.flags.safe_path:
    del sys.path[0]

from cotenant.views.cli import main

sys.exit(main())
