"""The part in C: loads BPF objects, drains rings into columns."""

from pathlib import Path
from typing import Final

from cotenant._native._drain import Ring, Sightings, Spans, load, probe_here, step_here

OBJECTS: Final = Path(__file__).parent / "objects"

__all__ = ["OBJECTS", "Ring", "Sightings", "Spans", "load", "probe_here", "step_here"]
