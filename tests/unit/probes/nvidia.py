"""NVIDIA's libraries and headers, as their packages install them."""

import importlib.util
from pathlib import Path


def package(pattern: str) -> list[Path]:
    """Such files of NVIDIA's packages: of a library with several major versions, several."""
    spec = importlib.util.find_spec("nvidia")
    places = list(spec.submodule_search_locations or ()) if spec else []
    found = sorted(f for place in places for f in Path(place).glob(pattern))
    assert found, f"no nvidia/{pattern}: make setup-tests installs it"
    return found
