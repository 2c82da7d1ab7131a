"""The two queries of the README, verbatim."""

from importlib import resources
from typing import Final

NAMES: Final = ("kernels", "nccl")


def promise(name: str) -> str:
    """The query's text, to be pasted anywhere."""
    return (resources.files(__name__) / f"{name}.sql").read_text()
