"""The two queries that are the product's promise: verbatim, with numbers that are right."""

from importlib import resources
from typing import Final

NAMES: Final = ("kernels", "nccl")


def promise(name: str) -> str:
    """The query's text, to be pasted anywhere."""
    return (resources.files(__name__) / f"{name}.sql").read_text()
