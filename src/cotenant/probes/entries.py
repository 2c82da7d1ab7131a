"""Functions that only go on to where a slot of theirs points: NVIDIA's drivers from 470 on.

    cmpl $0x321cba00,state(%rip)    push %rbp              cmpl $0x321cba00,state(%rip)
    je   over                       mov  %rsp,%rbp         je   over
    jmp  *slot(%rip)                ...                    push %rbp
                                    cmpl; je               mov  %rsp,%rbp; sub $16,%rsp
                                    call *slot(%rip)       call *slot(%rip)

Whoever patches such a function writes over its entry. What does the work is behind the slot, and
sees the call as it was made: arguments in registers are the caller's. Functions that are looked
for here have no others.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt
from iced_x86 import Code

from cotenant.probes.code import instructions, is_frame, is_harmless, target
from cotenant.probes.elf import Elf, Extent

_LONGEST: Final = 64  # Bytes of such a function.


def behind(elf: Elf, entries: Iterable[Extent]) -> dict[Extent, Extent]:
    """For entries of this kind, the function behind; none where several lead to one."""
    slots = {entry: slot for entry in set(entries) if (slot := _slot(elf, entry)) is not None}
    shared = Counter(slots.values())
    targets = elf.relative(slots.values()) if slots else {}
    if not targets:
        return {}
    starts = elf.function_starts()
    found = {}
    for entry, slot in slots.items():
        inner = _function(elf, starts, targets.get(slot))
        if inner is not None and shared[slot] == 1:
            found[entry] = inner
    return found


def _function(elf: Elf, starts: npt.NDArray[np.uint64], address: int | None) -> Extent | None:
    """The function that starts at an address, if one does."""
    offset = None if address is None else elf.file_offset(address)
    if address is None or offset is None:
        return None
    at = int(np.searchsorted(starts, np.uint64(address)))
    if at == len(starts) or int(starts[at]) != address:
        return None
    size = int(starts[at + 1]) - address if at + 1 < len(starts) else 0
    return Extent(offset, min(size, elf.size - offset))


def _slot(elf: Elf, entry: Extent) -> int | None:
    """The address of the slot; None if the function does anything before it goes there."""
    address = elf.address_of(entry.offset)
    if address is None:
        return None
    goes_on = {Code.JMP_RM64, Code.CALL_RM64}
    for instruction in instructions(elf.bytes_at(entry.offset, min(entry.size, _LONGEST))):
        if instruction.code in goes_on and instruction.is_ip_rel_memory_operand:
            return (address + instruction.ip_rel_memory_address) % (1 << 64)
        if is_frame(instruction):
            goes_on = {Code.CALL_RM64}
        ahead = target(instruction) is not None and instruction.is_jcc_short_or_near
        if not (is_frame(instruction) or is_harmless(instruction) or ahead):
            return None
    return None
