"""Every family of events: a module each, under the name that its struct has in bpf/."""

from importlib import import_module
from typing import Final

from cotenant.schema.events import RECORDS
from cotenant.schema.family import Family


def _declared(name: str) -> Family:
    family: Family = import_module(f"{__name__}.{name}").FAMILY
    return family


FAMILIES: Final = {record.family: _declared(record.family) for record in RECORDS.values()}
GPU_FAMILIES: Final = tuple(name for name, family in FAMILIES.items() if family.gpu)
KERNEL_FAMILIES: Final = tuple(name for name, family in FAMILIES.items() if not family.gpu)
