"""Functions that the driver hands out by address, and that have no name of their own.

``cuGetProcAddress`` writes the address where the tenant can write, too. So it is believed only
where a mistake, or a lie, can hurt nobody else: inside the very file that is probed already, at
the start of a function, by an instruction that is safe to probe, and in that process alone.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cotenant.agent.helper.files.elf_files import ElfFiles
from cotenant.agent.helper.libraries.libraries import Libraries
from cotenant.agent.helper.libraries.probed_library import ProbedLibrary
from cotenant.agent.process import Process
from cotenant.agent.protocol.reports import PointerReport, Report
from cotenant.agent.protocol.requests import HandedOut
from cotenant.errors import ProbeError
from cotenant.probes.attach import Attacher, Attachment, Placed
from cotenant.probes.changes import Code
from cotenant.probes.code_mappings import CodeMappings
from cotenant.probes.elf import BadElf, Elf, Extent
from cotenant.probes.function import Function, Library
from cotenant.probes.inodes import Inode
from cotenant.probes.sites import choose_site

_LOOK_S: Final = 1.0
_REWRITTEN: Final = "points into a file that was written to"
_PER_PROCESS_MAX: Final = 512
_PER_TENANT_MAX: Final = 4096
_STARTS_MAX: Final = 8  # Files whose functions are remembered.
_NO_STARTS: Final = np.empty(0, np.uint64)
_VERSION: Final = re.compile(r"(_v\d+)?(_ptsz|_ptds)?$")
_PER_THREAD_STREAM: Final = 2
# From which CUDA version on a plain name means which form, where forms differ in arguments.
_SINCE: Final = {
    "cuCtxCreate": ((12050, "_v4"), (11040, "_v3"), (0, "_v2")),
    "cuMemPrefetchAsync": ((12020, "_v2"), (0, "")),
    "cuMemcpyBatchAsync": ((13000, "_v2"), (0, "")),
    "cuMemcpy3DBatchAsync": ((13000, "_v2"), (0, "")),
    "cuGraphAddNode": ((12030, "_v2"), (0, "")),
    "cuGraphAddKernelNode": ((12000, "_v2"), (0, "")),
    "cuGraphExecKernelNodeSetParams": ((12000, "_v2"), (0, "")),
    "cuGraphKernelNodeSetParams": ((12000, "_v2"), (0, "")),
}


@dataclass(slots=True)
class _Followed:
    """One process's private probes."""

    tenant: str
    sites: set[tuple[Inode, int]] = field(default_factory=set)
    attachments: list[Attachment] = field(default_factory=list)
    missing: bool = False  # From the last sweep: it may have begun before this process did.


class Pointers:
    """Probes what was handed out, process by process."""

    def __init__(
        self,
        libraries: Libraries,
        attacher: Attacher,
        functions: Iterable[Function],
        code: CodeMappings,
        tell: Callable[[Report], None],
        files: ElfFiles,
    ) -> None:
        self._libraries = libraries
        self._files = files
        self._attacher = attacher
        self._forms: dict[str, list[Function]] = {}
        for function in functions:
            if function.library is Library.CUDA:
                base = _VERSION.sub("", function.symbol)
                self._forms.setdefault(base, []).append(function)
        self._code = code
        self._tell = tell
        self._followed: dict[Process, _Followed] = {}
        # By the file's state, too: it may be written to.
        self._starts: dict[tuple[Inode, tuple[int, ...]], npt.NDArray[np.uint64]] = {}

    def consider(self, tenant: str, pid: int, pointers: Iterable[HandedOut]) -> None:
        """Probe each of a process's pointers if it is safe; say why where it is not."""
        mappings = self._code.of(pid)
        for process, address, name, version, flags in pointers:
            function = self._function(name, version, flags)
            if function is None or not _is_same(mappings, process.start_ns):
                continue
            self._followed.setdefault(process, _Followed(tenant))
            reason = self._probe(process, mappings, address, function)
            if reason:
                self._tell(PointerReport(pid, name, reason))

    def _function(self, name: str, version: int, flags: int) -> Function | None:
        forms = self._forms.get(_VERSION.sub("", name), [])
        if not forms:
            return None
        twin = "_pt" if flags & _PER_THREAD_STREAM else ""
        base = _VERSION.sub("", name)
        suffixes = [suffix for since, suffix in _SINCE.get(base, ()) if version >= since][:1]
        wanted = [f for f in forms if bool(twin) == ("_pt" in f.symbol)] or forms
        for suffix in suffixes:
            exact = [f for f in wanted if f.symbol.partition("_pt")[0] == base + suffix]
            wanted = exact or wanted
        return wanted[0]

    def _probe(
        self, process: Process, mappings: Any, address: int, function: Function
    ) -> str | None:
        """Why this pointer is not probed; None if it is, now or already."""
        inside = mappings[(mappings["start"] <= address) & (address < mappings["end"])]
        if not len(inside):
            return "points to no code of a file"
        mapping = inside[0]
        inode = Inode.of(mapping)
        library = self._libraries.probed(inode)
        if library is None or str(Library.CUDA) not in library.plan.kinds:
            return "points into another file than the driver library"
        offset = address - int(mapping["start"]) + int(mapping["offset"])
        with library.opened() as fd:
            if fd is None:
                return _REWRITTEN
            found = self._placed(fd, offset, inside, (inode, library), function)
        return self._attach(process, inode, library, found) if isinstance(found, Placed) else found

    def _placed(
        self,
        fd: int,
        offset: int,
        inside: Any,
        where: tuple[Inode, ProbedLibrary],
        function: Function,
    ) -> Placed | str | None:
        """Where to probe; why nowhere, or None if it is probed already."""
        inode, library = where
        try:
            with Elf(fd) as elf:
                size = self._size(fd, inode, library, elf.address_of(offset))
                if size is None:
                    return "points into the middle of a function"
                stepped = library.plan.stepping.allows(function)
                site = choose_site(elf, Extent(offset, size), stepped=stepped)
        except BadElf as error:
            return str(error)
        if site.refused:
            return site.refused
        if site.offset in {placed.offset for placed in library.plan.placed}:
            return None
        placed = Placed(function, site.offset, site.start, site.length)
        if Code(fd, [placed]).changed(inside, _LOOK_S):
            return "points to what the process has changed"
        return placed

    def _size(
        self, fd: int, inode: Inode, library: ProbedLibrary, address: int | None
    ) -> int | None:
        """Bytes up to the next function, 0 if there is none; None if no function starts here."""
        key = inode, library.file.state
        if key not in self._starts:
            if len(self._starts) >= _STARTS_MAX:
                self._starts.clear()
            starts = self._files.function_starts(library.tenant, fd)
            self._starts[key] = starts
        if address is None or not 0 <= address < 1 << 64:
            return None
        starts = self._starts.get(key, _NO_STARTS)
        at = int(np.searchsorted(starts, np.uint64(address)))
        if at == len(starts) or int(starts[at]) != address:
            return None
        return int(starts[at + 1]) - address if at + 1 < len(starts) else 0

    def _attach(
        self, process: Process, inode: Inode, library: ProbedLibrary, placed: Placed
    ) -> str | None:
        followed = self._followed[process]
        if (inode, placed.offset) in followed.sites:
            return None
        if len(followed.sites) >= _PER_PROCESS_MAX:
            return "is one too many of this process"
        mine = (f for f in list(self._followed.values()) if f.tenant == followed.tenant)
        if sum(len(f.sites) for f in mine) >= _PER_TENANT_MAX:
            return "is one too many of this tenant"
        with library.probes.busy:  # As long as it is held, the descriptor is this file's.
            if library.probes.void:
                return _REWRITTEN
            try:
                attachment = self._attacher.attach(library.fd, [placed], pid=process.pid)
            except ProbeError as error:
                return str(error)
        followed.attachments.append(attachment)
        followed.sites.add((inode, placed.offset))
        self._tell(PointerReport(process.pid, placed.function.symbol))
        return None

    def sweep(self, living: set[Process]) -> None:
        """Remove the probes of processes that are gone."""
        for process, followed in list(self._followed.items()):
            if process not in living and followed.missing:
                for attachment in self._followed.pop(process).attachments:
                    self._attacher.remove(attachment)
            followed.missing = process not in living

    def take_all(self) -> list[Attachment]:
        """Every probe, for the caller to remove."""
        followed, self._followed = self._followed, {}
        return [attachment for one in followed.values() for attachment in one.attachments]


def _is_same(mappings: Any, start_ns: int) -> bool:
    """Whether the process is still the one that asked."""
    return bool(len(mappings)) and bool(np.all(mappings["process_start_ns"] == start_ns))
