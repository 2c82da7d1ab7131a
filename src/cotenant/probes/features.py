"""What this kernel can do, found by doing it to ourselves."""

import os
from typing import Final

from cotenant._native import OBJECTS, Ring, probe_here
from cotenant.errors import Unsupported, UsageError
from cotenant.probes.attach import Attacher, Method, Placed
from cotenant.probes.elf import Elf
from cotenant.probes.function import Flag, Function, Library
from cotenant.probes.library import held_path
from cotenant.probes.programs import Sizes, load_programs

# A function of our own native module, which nobody else calls.
_SITE: Final = "cotenant_probe_here"
_ITSELF: Final = Function(1023, Library.CUDA, _SITE, op="sync", flags=Flag.OPERATION)
_SMALL: Final = Sizes(events_bytes=4096, facts_bytes=4096)


def why_not(method: Method) -> str | None:
    """Attach to ourselves by this method and look for the event; None if it came."""
    try:
        programs = load_programs(method, (_ITSELF,), _SMALL, {})
    except Unsupported as error:
        return str(error)
    fd = os.open(next(OBJECTS.parent.glob("_drain*.so")), os.O_RDONLY)
    try:
        with Elf(fd) as elf:
            offset = elf.find([_SITE])[_SITE]
        attacher = Attacher(method, programs.programs)
        attachment = attacher.attach(held_path(fd), [Placed(_ITSELF, offset)])
        probe_here()
        attachment.close()
        seen = Ring(programs.maps["events"], _SMALL.events_bytes, 56).waiting()
        return None if seen else "attached, but no event came"
    except Exception as error:  # noqa: BLE001 - any failure is the answer
        return str(error)
    finally:
        os.close(fd)
        programs.close()


def choose_method(asked: str | None) -> Method:
    """The method that was asked for, else the best that works here."""
    if asked is not None:
        if asked not in list(Method):
            raise UsageError(f"--attach {asked}: is session, multi or pair")
        reason = why_not(Method(asked))
        if reason:
            raise Unsupported(f"this kernel cannot attach by {asked}: {reason}")
        return Method(asked)
    reason = ""
    for method in Method:
        reason = why_not(method) or ""
        if not reason:
            return method
    raise Unsupported(reason)
