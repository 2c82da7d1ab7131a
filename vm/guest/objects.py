"""Each program of each object loaded alone, as every method would load it."""

from collections.abc import Iterator
from typing import Any, Final

from cotenant.errors import Unsupported
from cotenant.probes.attach import PROGRAMS, Method
from cotenant.probes.function import CallFamily
from cotenant.probes.kernel import HOOKS
from cotenant.probes.programs import (
    SUFFIXES,
    TASK_PROGRAMS,
    Programs,
    Sizes,
    load_object,
)

_SMALL: Final = Sizes(events_bytes=1 << 16, facts_bytes=4096)


def _all() -> Iterator[tuple[str, str, int]]:
    for method in Method:
        for family in CallFamily:
            for suffix in SUFFIXES[method]:
                for name, kind in PROGRAMS[method].items():
                    yield f"{family}{suffix}", f"{family}_{name}", kind
    for hook in HOOKS:
        yield hook.family, hook.program, -1
    for name in TASK_PROGRAMS:
        yield ("flight" if name.startswith("thread_") else "task"), name, -1
    yield from (("flight", "calls_under_way", -1), ("vma", "code_mappings", -1))
    yield from (("vma", "file_mappings", -1), ("vma", "locked_memory", -1))
    yield from (("vma", "file_mappers", -1), ("vma", "forking_memory", -1))
    yield ("trial", "stack_trial", -1)


def run(job: dict[str, Any]) -> dict[str, Any]:
    """By object and program: why it does not load, or nothing."""
    found: dict[str, Any] = {}
    for stem, program, kind in dict.fromkeys(_all()):
        loaded = Programs(Method.PAIR)
        try:
            load_object(loaded, stem, {program: kind}, _SMALL, {})
            found[f"{stem}/{program}/{kind}"] = None
        except Unsupported as error:
            found[f"{stem}/{program}/{kind}"] = str(error)
        finally:
            loaded.close()
    return found
