"""A driver library whose functions begin in every way that compilers make, and some that none does.

Each takes (destination, source or value, count) and answers the count's last nine bits, unless it
says otherwise. So a register that a probe did not give back shows in the result.
"""

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

RESULT = "mov %edx,%eax; and $511,%eax; ret"
THROUGH_RBX = f"mov %rdx,%rbx; mov %rbx,%rdx; pop %rbx; {RESULT}"
FRAME = f"push %rbp; mov %rsp,%rbp; push %r12; pop %r12; pop %rbp; {RESULT}"
TABLE = "cmpl $0x321cba00,{state}(%rip); je 1f; jmp *slot(%rip); 1: mov $4,%eax; ret"
STORE = (
    "mov %rbx,-0x18(%rsp); mov %rbp,-0x10(%rsp); mov $4,%eax; sub $0x18,%rsp; mov %edx,%ebx; "
    f"mov %ebx,%edx; mov (%rsp),%rbx; add $0x18,%rsp; {RESULT}"
)
RESERVE = f"sub $0x18,%rsp; mov %edx,(%rsp); mov (%rsp),%edx; add $0x18,%rsp; {RESULT}"
CONSTANT = f"mov $4,%eax; push %rbx; {THROUGH_RBX}"
# Adds what the address is short of, which is nothing.
LEA = "lea 8(%rsp),%r10; push %rbx; sub %rsp,%r10; lea -16(%rdx,%r10),%rdx; " + THROUGH_RBX
TEST = f"test %rdx,%rdx; je 1f; {RESULT}; 1: mov $7,%eax; ret"
CLEAR = f"xor %eax,%eax; push %rbx; {THROUGH_RBX}"

POP = f"pop %r11; push %r11; {RESULT}"

SINGLE = "would be single-stepped: "
NOWHERE = "has no safe site: "


def last_bits(count: int) -> int:
    return count & 511


@dataclass(frozen=True)
class Beginning:
    """How a function begins, where its probe belongs, and what it answers."""

    code: str
    offset: int | None  # Of the probe, by default; None if it is refused.
    refused: str = ""
    stepped: int | None = None  # Of the probe where single-stepped ones are allowed, too.
    answer: Callable[[int], int] = last_bits


BEGINNINGS = {
    "frame": Beginning(FRAME, 0),
    "table": Beginning(TABLE.format(state="alive"), 10),
    "table of the dead": Beginning(TABLE.format(state="dead"), 10, answer=lambda _: 4),
    "store": Beginning(STORE, None, SINGLE + "starts with mov", 0),
    "reserve": Beginning(RESERVE, None, SINGLE + "starts with sub", 0),
    "constant": Beginning(CONSTANT, 5),
    "lea": Beginning(LEA, None, SINGLE + "starts with lea", 0),
    "test": Beginning(TEST, 3, answer=lambda count: count & 511 if count else 7),
    "clear": Beginning(CLEAR, 2),
    "jump to the next byte": Beginning(f"jmp 1f; 1: {RESULT}", 0),
    "three bytes": Beginning(
        "xor %eax,%eax; ret", None, SINGLE + "goes on with ret", 0, answer=lambda _: 0
    ),
    "call": Beginning(f"call nothing; {RESULT}", None, NOWHERE + "starts with call"),
    "call of the next byte": Beginning(
        f"call 1f; 1: pop %rax; {RESULT}", None, NOWHERE + "starts with call"
    ),
    "endbr64, frame": Beginning(f"endbr64; {FRAME}", 4),
    "endbr64, table": Beginning("endbr64; " + TABLE.format(state="alive"), 14),
    "endbr64, store": Beginning(f"endbr64; {STORE}", None, SINGLE + "goes on with mov", 4),
    "endbr64, reserve": Beginning(f"endbr64; {RESERVE}", None, SINGLE + "goes on with sub", 4),
    "endbr64, constant": Beginning(f"endbr64; {CONSTANT}", 9),
    "endbr64, lea": Beginning(f"endbr64; {LEA}", None, SINGLE + "goes on with lea", 4),
    "endbr64, test": Beginning(
        f"endbr64; {TEST}", 7, answer=lambda count: count & 511 if count else 7
    ),
    "endbr64, clear": Beginning(f"endbr64; {CLEAR}", 6),
    "loop": Beginning(
        f"xor %eax,%eax; 1: nop; add $1,%eax; cmp $5,%eax; jne 1b; {RESULT}",
        None, "jumps back to where its probe would be", 0,
    ),
    "jump by register": Beginning(
        f"mov $1,%eax; push %rbx; pop %rbx; lea 1f(%rip),%r11; jmp *%r11; 1: {RESULT}",
        None, "jumps by a table, perhaps to where its probe would be", 0,
    ),
    "locked": Beginning(
        f"lock incl count(%rip); {RESULT}", None, NOWHERE + "starts with lock incl"
    ),
    "relative": Beginning(f"movl $5,count(%rip); {RESULT}", None, NOWHERE + "starts with movl"),
    "pop": Beginning(POP, None, NOWHERE + "starts with pop"),
    "long nops": Beginning(f"xchg %ax,%ax; nopl 8(%rax,%rax,1); push %rbx; {THROUGH_RBX}", 7),
    "prefixed jump": Beginning(f"bnd jmp 1f; 1: {RESULT}", None, NOWHERE + "starts with jmp"),
}  # fmt: skip

_STEMS = (
    "cuMemcpy{}", "cuMemcpyHtoD_v2{}", "cuMemcpyDtoH_v2{}", "cuMemcpyDtoD_v2{}", "cuMemsetD8_v2{}",
    "cuMemsetD16_v2{}", "cuMemsetD32_v2{}",
)  # fmt: skip
_ASYNC_STEMS = (
    "cuMemcpyAsync{}", "cuMemcpyHtoDAsync_v2{}", "cuMemcpyDtoHAsync_v2{}", "cuMemcpyDtoDAsync_v2{}",
    "cuMemsetD8Async{}", "cuMemsetD16Async{}", "cuMemsetD32Async{}",
)  # fmt: skip
SYMBOLS = dict(
    zip(
        BEGINNINGS,
        [stem.format(twin) for twin in ("", "_ptds") for stem in _STEMS]
        + [stem.format(twin) for twin in ("", "_ptsz") for stem in _ASYNC_STEMS],
        strict=True,
    )
)

# Every condition that a jump may have, near and, as far as there are names, far.
_JUMP = "cmp %rsi,%rdx; j{0} 1f; mov $1,%eax; ret; .skip {1},0x90; 1: mov $2,%eax; ret"
_CONDITIONS = (
    "o",
    "no",
    "b",
    "ae",
    "e",
    "ne",
    "be",
    "a",
    "s",
    "ns",
    "p",
    "np",
    "l",
    "ge",
    "le",
    "g",
)
CONDITIONS = dict(
    zip(
        SYMBOLS.values(),
        [_JUMP.format(c, 0) for c in _CONDITIONS] + [_JUMP.format(c, 200) for c in _CONDITIONS],
        strict=False,
    )
)
# One function that goes on as another; both are probed.
TAILS = {"cuMemAllocHost_v2": "jmp cuMemHostAlloc", "cuMemHostAlloc": CONSTANT}

# Functions that remember their return address, and look at the end whether it is still there.
_AGAIN = f"cmp 8(%rsp),%r11; jne 1f; pop %rbx; {RESULT}; 1: ud2"
GUARDED = {
    "cuMemcpy": f"mov (%rsp),%r11; push %rbx; {_AGAIN}",
    "cuMemcpyHtoD_v2": f"xor %r11d,%r11d; xor (%rsp),%r11; push %rbx; {_AGAIN}",
    "cuMemcpyDtoH_v2": f"xor %eax,%eax; mov (%rsp,%rax),%r11; push %rbx; {_AGAIN}",
    "cuMemcpyDtoD_v2": f"mov %rsp,%r10; mov (%r10),%r11; push %rbx; {_AGAIN}",
    "cuMemsetD8_v2": f"lea 8(%rsp),%r10; mov -8(%r10),%r11; push %rbx; {_AGAIN}",
}

_HEAD = """
.data
alive: .long 0
dead: .long 0x321cba00
count: .long 0
.align 8
slot: .quad result
.text
result: mov %edx,%eax; and $511,%eax; ret
nothing: ret
"""


def _function(symbol: str, code: str) -> str:
    return (
        f".p2align 4\n.globl {symbol}\n.type {symbol},@function\n"
        f"{symbol}:\n{code.replace('; ', chr(10))}\n.size {symbol},.-{symbol}\n"
    )


def build_beginnings(
    path: Path, launch: str = FRAME, more: Mapping[str, str] | None = None
) -> Path:
    """The library, with a launch function besides, so that it is one of ours."""
    functions = {SYMBOLS[name]: beginning.code for name, beginning in BEGINNINGS.items()}
    return build_assembly(path, {"cuLaunchKernel": launch, **functions, **(more or {})})


def build_assembly(path: Path, functions: Mapping[str, str], *options: str) -> Path:
    """A library of these functions; the options are the linker's."""
    source = path.with_suffix(".S")
    text = "".join(_function(symbol, code) for symbol, code in functions.items())
    source.write_text(_HEAD + text + '.section .note.GNU-stack,"",@progbits\n')
    subprocess.run(["gcc", "-shared", "-o", str(path), str(source), *options], check=True)
    return path


def build_versions(path: Path) -> Path:
    """A library with two functions of one name, an old version and a new one."""
    script = path.with_suffix(".map")
    script.write_text("V1 { global: *; };\nV2 { } V1;\n")
    functions = {
        "cuLaunchKernel": FRAME,
        "old": f"{FRAME}; .symver old,cuMemcpy@V1",
        "new": f"{CONSTANT}; .symver new,cuMemcpy@@V2",
    }
    return build_assembly(path, functions, f"-Wl,--version-script={script}")
