"""``python -m cotenant``."""

import sys

from cotenant.views.cli import main

sys.exit(main())
