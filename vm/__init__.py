"""Other kernels, booted under qemu with the checkout in them: ``make kernels``."""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
BUILD: Final = ROOT / "build" / "kernels"
