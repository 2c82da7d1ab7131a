"""Machine code, as far as a probe needs to know it: what an instruction does to its surroundings.

The bytes are a tenant's. They are decoded, never run, and whatever is not known here to be
harmless is not.
"""

from collections.abc import Iterator
from typing import Final

from iced_x86 import (
    Code,
    Decoder,
    FlowControl,
    Formatter,
    FormatterSyntax,
    Instruction,
    InstructionInfoFactory,
    MemorySizeExt,
    Mnemonic,
    OpAccess,
    OpKind,
    Register,
    RegisterExt,
)

_PLAIN: Final = frozenset(
    {
        Mnemonic.ADD, Mnemonic.AND, Mnemonic.CMP, Mnemonic.ENDBR64, Mnemonic.LEA, Mnemonic.MOV,
        Mnemonic.MOVSX, Mnemonic.MOVSXD, Mnemonic.MOVZX, Mnemonic.NOP, Mnemonic.OR, Mnemonic.SUB,
        Mnemonic.TEST, Mnemonic.XOR,
    }
)  # fmt: skip
# Registers that hold no argument: the result, the closure pointer, and a scratch register.
_FREE: Final = frozenset({Register.RAX, Register.R10, Register.R11})
_CHANGES: Final = frozenset(
    {OpAccess.WRITE, OpAccess.COND_WRITE, OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE}
)
_RESERVES_STACK: Final = frozenset({Code.SUB_RM64_IMM8, Code.SUB_RM64_IMM32})
_SEGMENTS: Final = frozenset(
    {Register.CS, Register.DS, Register.ES, Register.FS, Register.GS, Register.SS}
)
_ADDRESS_BYTES: Final = 8
_IN_REGISTER: Final = OpKind.REGISTER
_facts: Final = InstructionInfoFactory()
_words: Final = Formatter(FormatterSyntax.GAS)


def instructions(code: bytes) -> Iterator[Instruction]:
    """Instructions one after the other, addressed from 0, until one that is none."""
    decoder = Decoder(64, code)
    while decoder.can_decode:
        instruction = decoder.decode()
        if instruction.is_invalid:
            return
        yield instruction


def mnemonic(instruction: Instruction) -> str:
    """What people call it."""
    return _words.format_mnemonic(instruction)


def target(instruction: Instruction) -> int | None:
    """Where a branch goes, if the instruction says it."""
    if instruction.op_count and instruction.op_kind(0) == OpKind.NEAR_BRANCH64:
        return instruction.near_branch_target
    return None


def is_call(instruction: Instruction) -> bool:
    """Whether it leaves a return address of its own."""
    return instruction.flow_control == FlowControl.CALL


def is_mark(instruction: Instruction) -> bool:
    """Whether it only says that calls by pointer may come here."""
    return instruction.mnemonic == Mnemonic.ENDBR64


def is_push(instruction: Instruction) -> bool:
    """Whether it saves a register, as most functions do first."""
    return instruction.code == Code.PUSH_R64


def is_frame(instruction: Instruction) -> bool:
    """Whether it makes room on the stack as functions do first, and changes no argument."""
    if is_push(instruction) or instruction.code in _RESERVES_STACK:
        return is_push(instruction) or instruction.op0_register == Register.RSP
    copies = instruction.mnemonic == Mnemonic.MOV and instruction.op1_register == Register.RSP
    return copies and instruction.op0_register == Register.RBP


def goes_anywhere(instruction: Instruction) -> bool:
    """Whether it jumps to where a register or a table says."""
    indirect = instruction.flow_control == FlowControl.INDIRECT_BRANCH
    return indirect and not instruction.is_ip_rel_memory_operand


def is_emulated(instruction: Instruction, code: bytes) -> bool:
    """Whether every kernel since 5.15 emulates it, as arch/x86/kernel/uprobes.c decides.

    ``code`` is its bytes. A ``nop`` longer than a byte is refused by some kernels, stepped by
    others, and turned into a call by the newest, which writes below the stack. A call is emulated
    without a word to the shadow stack, but for the newest. None of them is counted here.
    """
    first, length = code[0], len(code)
    if instruction.code == Code.PUSH_R64:
        return length == 1 or (length == 2 and first == 0x41)
    if target(instruction) is None:
        return code == b"\x90"
    if length == 2:
        return first == 0xEB or 0x70 <= first <= 0x7F
    if length == 5:
        return first == 0xE9
    return length == 6 and first == 0x0F and 0x80 <= code[1] <= 0x8F


def _written(instruction: Instruction) -> set[int]:
    used = _facts.info(instruction).used_registers()
    return {RegisterExt.full_register(r.register) for r in used if r.access in _CHANGES}


def _writes_memory(instruction: Instruction) -> bool:
    return any(m.access in _CHANGES for m in _facts.info(instruction).used_memory())


def _meets_return_address(instruction: Instruction) -> bool:
    """Whether it reads or writes what is on top of the stack.

    To see the return, the kernel puts another address there. A function that has read the old one
    before, to compare it at the end, would take itself for attacked.
    """
    for memory in _facts.info(instruction).used_memory():
        offset = (memory.displacement + (1 << 63)) % (1 << 64) - (1 << 63)
        inside = -MemorySizeExt.size(memory.memory_size) < offset < _ADDRESS_BYTES
        if memory.base == Register.RSP and (inside or memory.index != Register.NONE):
            return True
    return False


def _copies_stack_pointer(instruction: Instruction) -> bool:
    """Whether it makes something of the stack's address, by which others may read the stack.

    What loads an argument from there does not.
    """
    operands = range(instruction.op_count)
    used = [instruction.op_register(n) for n in operands if instruction.op_kind(n) == _IN_REGISTER]
    if instruction.mnemonic == Mnemonic.LEA:
        used += [instruction.memory_base, instruction.memory_index]
    return any(RegisterExt.full_register(register) == Register.RSP for register in used)


def is_harmless(instruction: Instruction) -> bool:
    """Whether arguments, memory and stack are the same behind it: only flags or free registers."""
    return (
        instruction.mnemonic in _PLAIN
        and not instruction.is_privileged
        and not instruction.has_lock_prefix
        and not _writes_memory(instruction)
        and _written(instruction) <= _FREE
        and not _copies_stack_pointer(instruction)
        and not _meets_return_address(instruction)
    )


def is_steppable(instruction: Instruction) -> bool:
    """Whether it does the same out of line: plain, not relative to where it is, no odd prefix.

    Of what moves the stack only a constant taken from it.
    """
    moves_stack = Register.RSP in _written(instruction)
    return (
        instruction.mnemonic in _PLAIN
        and instruction.mnemonic not in (Mnemonic.NOP, Mnemonic.ENDBR64)
        and not instruction.is_privileged
        and not instruction.has_lock_prefix
        and not instruction.is_ip_rel_memory_operand
        and instruction.segment_prefix == Register.NONE
        and not _written(instruction) & _SEGMENTS
        and (not moves_stack or instruction.code in _RESERVES_STACK)
        and not _meets_return_address(instruction)
    )
