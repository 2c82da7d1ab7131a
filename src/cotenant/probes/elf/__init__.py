"""ELF files that tenants may have written: where functions, names and relocations are."""

from cotenant.probes.elf.file import PLACES_MAX, SYMBOL, VARIABLE, Elf, Extent
from cotenant.probes.elf.headers import BadElf, NoElf, NotRead

__all__ = ["PLACES_MAX", "SYMBOL", "VARIABLE", "BadElf", "Elf", "Extent", "NoElf", "NotRead"]
