"""Loads BPF objects: which programs, with which maps and constants.

Which attach method a kernel has is found by trying it on a function of our own, never by its
version: distributions carry changes back.
"""

import os
import sys
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Final

import numpy as np

from cotenant._native import OBJECTS, load
from cotenant.errors import Unsupported
from cotenant.probes import mappers, memory_locks, syscalls
from cotenant.probes.attach import PROGRAMS, Method
from cotenant.probes.cpus import possible_cpus
from cotenant.probes.function import CallFamily, Function, encode
from cotenant.probes.memory_locks import MemoryLocks
from cotenant.probes.rejection import read_rejection
from cotenant.schema.constants import MAPS
from cotenant.schema.events import ENUMS
from cotenant.schema.layouts import ROOM

# In the environment: what the kernel says of a program that it refuses goes to stderr.
DEBUG: Final = "COTENANT_DEBUG"


def _for_cpus(each: int, most: int) -> int:
    """Room by the CPUs that may fill it at the same time: a power of two, as a ring takes it."""
    return min(each << (possible_cpus() - 1).bit_length(), most)


def facts_ring_bytes() -> int:
    """Of each ring of facts but names."""
    return _for_cpus(1 << 20, 4 << 20)


def names_ring_bytes() -> int:
    """Eight ranks load a library of 24,000 kernels at once; it may not be read for 50 ms."""
    return _for_cpus(2 << 20, 16 << 20)


def unread_ring_bytes() -> int:
    """Of names in pages that were not there."""
    return _for_cpus(1 << 20, 8 << 20)


def _requests() -> int:
    """Block requests under way, and what they carry: entries that are there from the start."""
    return _for_cpus(2048, 16384)


EVENTS_RING_BYTES: Final = 16 << 20
# Folios whose dirtier is known: 1 GiB where each is a page of 4 KiB. Else a memory cgroup answers.
_FOLIOS: Final = 1 << 18

# Values that programs are compiled against when they are loaded; each object takes those it has.
Constants = Mapping[str, int]

# What follows the family in the stem of the object with its programs. Of the two for sessions a
# kernel takes the one with its own signature of a kfunc; see bpf/common/session.bpf.h.
SUFFIXES: Final = {
    Method.SESSION: ("_session", "_session_ctx"),
    Method.MULTI: ("",),
    Method.PAIR: ("",),
}

# Programs on tracepoints: cgroups and processes from birth to end.
TASK_PROGRAMS: Final = (
    "cgroup_born",
    "cgroup_gone",
    "cgroup_moved",
    "task_moved",
    "thread_exec",  # Before the next, which forgets what the thread knew.
    "process_exec",
    "process_fork",
    "process_exit",
    "thread_exit",
)


@dataclass(slots=True)
class Programs:
    """What is loaded: descriptors of programs and maps, by name."""

    method: Method
    suffix: str | None = None  # Of the objects that this kernel takes, once one is loaded.
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
    facts_bytes: int = field(default_factory=facts_ring_bytes)


@cache
def programs_allocate() -> bool:
    """Whether programs may allocate memory for entries of maps while they run."""
    nothing: dict[str, int] = {}
    try:
        loaded, maps = load(
            path=str(OBJECTS / "trial.bpf.o"),
            programs={"allocation_trial": -1},
            shared=nothing,
            sizes=nothing,
            constants=nothing,
        )
    except OSError:
        return False
    for fd in (*loaded.values(), *maps.values()):
        os.close(fd)
    return True


def load_object(
    into: Programs, stem: str, programs: dict[str, int], sizes: Sizes, constants: Constants
) -> None:
    """Some programs of one object, sharing the maps that are loaded already."""
    shared = dict(into.maps)
    room = {
        "events": sizes.events_bytes,
        "identities": sizes.facts_bytes,
        "facts": sizes.facts_bytes,
        "births": sizes.facts_bytes,
        "names": names_ring_bytes(),
        "unread": unread_ring_bytes(),
        "cpu_runs": possible_cpus(),
        "dirtied": _FOLIOS,
        "requests": _requests(),
        "bios": _requests(),
    }
    try:
        loaded, maps = load(
            path=str(OBJECTS / f"{stem}.bpf.o"),
            programs=programs,
            shared=shared,
            sizes=room,
            constants=dict(constants),
            preallocate=not programs_allocate(),
        )
    except OSError as error:
        said = error.strerror or ""
        if os.environ.get(DEBUG):
            sys.stderr.write(said)
        why = read_rejection(stem, error.errno or 0, said)
        raise Unsupported(f"cannot load {why}") from error
    into.programs |= loaded
    for name, fd in maps.items():
        # An object's own data sections are maps, too; their names have a dot.
        if name in shared or "." in name:
            os.close(fd)
        elif into.maps.setdefault(name, fd) != fd:
            raise AssertionError(f"two objects that load together both created the map {name}")
    _tell_rooms(into, maps.keys() - shared.keys())


def load_locks() -> MemoryLocks:
    """The programs that look at memory locks: needed before anything is attached."""
    loaded = Programs(Method.SESSION)  # No program of theirs is for one method.
    load_object(loaded, memory_locks.OBJECT, {memory_locks.PROGRAM: -1}, Sizes(), {})
    with suppress(Unsupported):
        load_object(loaded, memory_locks.OBJECT, dict.fromkeys(mappers.PROGRAMS, -1), Sizes(), {})
    return MemoryLocks.loaded(loaded.programs, loaded.maps)


def load_family(
    into: Programs, family: str, programs: dict[str, int], sizes: Sizes, constants: Constants
) -> None:
    """Some programs of a family of calls, out of the first object that this kernel takes."""
    suffixes = SUFFIXES[into.method] if into.suffix is None else (into.suffix,)
    refused: Unsupported | None = None
    for suffix in suffixes:
        try:
            load_object(into, f"{family}{suffix}", programs, sizes, constants)
        except Unsupported as error:
            refused = error
            continue
        into.suffix = suffix
        return
    assert refused is not None
    raise refused


def load_programs(
    method: Method,
    functions: Iterable[Function],
    sizes: Sizes,
    constants: Constants,
    *,
    optional: Mapping[str, dict[str, int]] = MappingProxyType({}),
) -> Programs:
    """The programs for these functions by one attach method, and the table that they read.

    Of the objects in ``optional``, each with its programs, those that this kernel refuses are
    left out.
    """
    functions = tuple(functions)
    loaded = Programs(method)
    try:
        wanted = {function.family for function in functions}
        _load_all(loaded, wanted, optional, sizes, constants)
    except Unsupported:
        loaded.close()
        raise
    _tell_functions(loaded, functions)
    return loaded


def load_function(method: Method, function: Function, sizes: Sizes) -> Programs:
    """The programs of one function alone."""
    loaded = Programs(method)
    load_family(loaded, function.family, _of_family(method, function.family), sizes, {})
    _tell_functions(loaded, (function,))
    return loaded


def _tell_functions(loaded: Programs, functions: Iterable[Function]) -> None:
    for function in functions:
        key = function.id.to_bytes(MAPS["functions"][0], "little")
        syscalls.map_update(loaded.maps["functions"], key, encode(function))


def _tell_rooms(loaded: Programs, created: Collection[str]) -> None:
    """How many entries there are to divide among tenants, on this kernel, by map."""
    for number, name in ENUMS["quota"].items():
        if name in created:
            most = syscalls.map_entries(loaded.maps[name])
            key = number.to_bytes(MAPS["rooms"][0], "little")
            syscalls.map_update(loaded.maps["rooms"], key, np.array((most, 0), ROOM).tobytes())


def _of_family(method: Method, family: CallFamily) -> dict[str, int]:
    return {f"{family}_{name}": kind for name, kind in PROGRAMS[method].items()}


# Objects that every recording has, and their programs.
_OBJECTS: Final = {
    "flight": ("calls_under_way", "thread_exit", "thread_exec"),
    "vma": ("code_mappings", "file_mappings"),
}


def _load_all(
    into: Programs,
    families: Collection[CallFamily],
    optional: Mapping[str, dict[str, int]],
    sizes: Sizes,
    constants: Constants,
) -> None:
    """Two objects at a time: the verifier takes about as long for the optional as for the rest."""
    # It has every map that the two share.
    tasks = dict.fromkeys({*TASK_PROGRAMS, "sweep"} - {*_OBJECTS["flight"]}, -1)
    load_object(into, "task", tasks, sizes, constants)

    def load_optional() -> None:
        for stem, programs in optional.items():
            with suppress(Unsupported):
                load_object(into, stem, programs, sizes, constants)

    with ThreadPoolExecutor(1, thread_name_prefix="load") as beside:
        done = beside.submit(load_optional)
        for family in CallFamily:
            # Of a family that is not recorded, the maps.
            programs = _of_family(into.method, family) if family in families else {}
            load_family(into, family, programs, sizes, constants)
        for stem, names in _OBJECTS.items():
            load_object(into, stem, dict.fromkeys(names, -1), sizes, constants)
        done.result()
