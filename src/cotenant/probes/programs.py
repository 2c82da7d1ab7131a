"""BPF objects into the kernel: which programs, with which maps and constants.

Which attach method a kernel has is found by trying it on a function of our own, never by its
version: distributions carry changes back.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from cotenant._native import OBJECTS, load
from cotenant.errors import Unsupported
from cotenant.probes import syscalls
from cotenant.probes.attach import PROGRAMS, Method
from cotenant.probes.function import Family, Function, encode

EVENTS_RING_BYTES: Final = 16 << 20
FACTS_RING_BYTES: Final = 4 << 20

# Values that programs are compiled against when they are loaded; each object takes those it has.
Constants = Mapping[str, int]

# Programs on tracepoints: cgroups and processes from birth to end.
TASK_PROGRAMS: Final = (
    "cgroup_born",
    "cgroup_gone",
    "cgroup_moved",
    "task_moved",
    "process_exec",
    "process_fork",
    "process_exit",
    "thread_exit",
)


@dataclass(slots=True)
class Programs:
    """What is loaded: descriptors of programs and maps, by name."""

    method: Method
    programs: dict[str, int] = field(default_factory=dict)
    maps: dict[str, int] = field(default_factory=dict)

    def close(self) -> None:
        """Let go of everything; what links still hold stays until they go."""
        for fd in (*self.programs.values(), *self.maps.values()):
            os.close(fd)
        self.programs.clear()
        self.maps.clear()


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much room the kernel side gets."""

    events_bytes: int = EVENTS_RING_BYTES
    facts_bytes: int = FACTS_RING_BYTES


def load_object(
    into: Programs, stem: str, programs: dict[str, int], sizes: Sizes, constants: Constants
) -> None:
    """Some programs of one object, sharing the maps that are loaded already."""
    room = {"events": sizes.events_bytes, "facts": sizes.facts_bytes, "births": sizes.facts_bytes}
    try:
        loaded, maps = load(
            path=str(OBJECTS / f"{stem}.bpf.o"),
            programs=programs,
            shared=dict(into.maps),
            sizes=room,
            constants=dict(constants),
        )
    except OSError as error:
        raise Unsupported(_why(stem, error)) from error
    into.programs |= loaded
    for name, fd in maps.items():
        # An object's own data sections are maps, too; their names have a dot.
        if name in into.maps or "." in name:
            os.close(fd)
        else:
            into.maps[name] = fd


def _why(stem: str, error: OSError) -> str:
    """One line out of what libbpf and the verifier had to say."""
    if error.errno in (1, 13):
        return "cannot load BPF programs: needs root (CAP_BPF and CAP_PERFMON); try sudo"
    said = [line for line in (error.strerror or "").splitlines() if line.strip()]
    last = said[-1].removeprefix("libbpf: ") if said else f"error {error.errno}"
    if not os.path.exists("/sys/kernel/btf/vmlinux"):
        return "cannot load BPF programs: this kernel has no BTF (/sys/kernel/btf/vmlinux)"
    return f"cannot load BPF program {stem}: {last}"


def load_programs(
    method: Method, functions: Iterable[Function], sizes: Sizes, constants: Constants
) -> Programs:
    """All programs for one attach method, and the function table that they read."""
    loaded = Programs(method)
    try:
        for family in Family:
            wanted = {f"{family}_{name}": kind for name, kind in PROGRAMS[method].items()}
            load_object(loaded, family, wanted, sizes, constants)
        in_task = [name for name in TASK_PROGRAMS if name != "thread_exit"]
        load_object(loaded, "task", dict.fromkeys(in_task, -1), sizes, constants)
        load_object(loaded, "flight", {"calls_under_way": -1, "thread_exit": -1}, sizes, constants)
        load_object(loaded, "vma", {"code_mappings": -1, "file_mappings": -1}, sizes, constants)
    except Unsupported:
        loaded.close()
        raise
    for function in functions:
        key = function.id.to_bytes(4, "little")
        syscalls.map_update(loaded.maps["functions"], key, encode(function))
    return loaded
