"""The page that programs read each time they run."""

import mmap

import numpy as np

from cotenant.schema.layouts import CONTROL


def switch_off(controls: int) -> None:
    """Have programs on functions record nothing from now on; probes may stay for a while."""
    page = mmap.mmap(controls, mmap.PAGESIZE)
    np.frombuffer(page, CONTROL, count=1)["off"] = 1
