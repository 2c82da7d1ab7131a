"""Can this host be recorded? Each condition is tried, never guessed from a version number."""

import mmap
import os
import select
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from cotenant.agent.helper.discovery.directories import find_libraries
from cotenant.agent.helper.discovery.mmap_events import MmapEvents
from cotenant.agent.helper.naming import source_settings
from cotenant.agent.protocol.reports import HooksRefused
from cotenant.agent.recorder.helper_client import HelperClient
from cotenant.agent.refusals import blindness, by_reason
from cotenant.agent.settings import (
    Settings,
    choose_hierarchy,
    for_helper,
    v1_hierarchies,
)
from cotenant.confine.landlock import confine
from cotenant.confine.seccomp import Role, refuse_calls
from cotenant.confine.user import RecorderUser, become
from cotenant.errors import CotenantError, StoreError
from cotenant.identity import parse_path
from cotenant.identity.naming.resolver import default_resolver
from cotenant.identity.walk import mounts, walk
from cotenant.probes.attach import Method
from cotenant.probes.elf import BadElf
from cotenant.probes.features import attempt, choose_stepping, why_not
from cotenant.probes.plan import Plan, plan
from cotenant.probes.roots import open_file, open_root
from cotenant.probes.sites import Stepping
from cotenant.probes.syscalls import PERF_ADVICE
from cotenant.probes.tables import FUNCTIONS
from cotenant.store.ownership import check_owner, check_way

_FREE_BYTES: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Check:
    """One condition: whether it holds, what was found, what to do if it does not."""

    name: str
    holds: bool
    found: str
    advice: str = ""
    needed: bool = True  # Without it nothing can be recorded.
    more: tuple[str, ...] = ()  # Of what was found, a line each.


def _root() -> Check:
    if os.geteuid() == 0:
        return Check("root", True, "runs as root")
    return Check("root", False, f"runs as uid {os.geteuid()}", "run with sudo")


def _btf() -> Check:
    path = Path("/sys/kernel/btf/vmlinux")
    try:
        with path.open("rb") as file:
            good = file.read(2) == b"\x9f\xeb"
    except OSError:
        good = False
    advice = "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y, as distributions' are"
    return Check(
        "kernel types (BTF)", good, str(path) if good else f"no {path}", "" if good else advice
    )


def _attach(method: Method) -> Check:
    reason = why_not(method)
    words = {
        Method.SESSION: "one program for entry and return; kernels from 6.13 have it",
        Method.MULTI: "one link for many functions; kernels from 6.6 have it",
        Method.PAIR: "a perf event per function; slow to detach",
    }
    found = "attached to ourselves, and the event came" if reason is None else reason
    return Check(
        f"probes by {method}", reason is None, found, words[method] if reason else "", False
    )


def _any_method(checks: list[Check]) -> Check:
    works = [check.name.removeprefix("probes by ") for check in checks if check.holds]
    if works:
        return Check("probes", True, f"will attach by {works[0]}")
    return Check("probes", False, "no method works", "see the reasons above")


def _recording() -> Iterator[Check]:
    """Start the attaching process as a recording does, and attach to no tenant."""
    helper = HelperClient()
    name = "programs in the kernel"
    try:
        settings = Settings(Path("/nowhere"))
        wanted = for_helper(settings, choose_hierarchy(settings.hierarchy))
        helper.begin(replace(wanted, trial=True))
        told = helper.maps()[2]
        priority = helper.ready().priority
        refused = [m.reasons for m in helper.take() if isinstance(m, HooksRefused)]
    except CotenantError as error:
        helper.dismiss()
        yield Check(name, False, str(error), "--debug shows what the kernel said")
        return
    helper.stop()
    helper.leave()
    cost = f"{told.cost_ns / 1e3:.1f} us a call"
    yield Check(name, True, f"all that a recording loads, by {told.method}: {cost}")
    yield _priority(priority)
    for texts in refused:
        for program, text in texts.items():
            if program != "mappings":
                yield Check(f"hook {program}", False, text, "", False)


def _priority(kind: str) -> Check:
    """Whether probes are placed in time when every CPU is busy."""
    if kind != "none":
        return Check("priority", True, f"probes are placed before others run: {kind}", "", False)
    found = "on a busy host probes of new containers come late"
    return Check("priority", False, found, "give CAP_SYS_NICE", needed=False)


def _mappings() -> Check:
    """Map a file as code, and see the kernel tell of it."""
    watch = MmapEvents()
    if watch.refused is not None:
        return Check("mappings by perf", False, watch.refused, PERF_ADVICE, False)
    try:
        with open("/proc/self/exe", "rb") as file:
            mmap.mmap(
                file.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC
            ).close()
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:
            select.select(watch.fds, (), (), 1)
            if any(mapped.pid == os.getpid() for mapped in watch.read()):
                how = "" if watch.is_woken else "; new threads wake us, too"
                return Check("mappings by perf", True, f"our own mapping was seen{how}")
        return Check(
            "mappings by perf",
            False,
            "our own mapping was not seen",
            "later libraries are missed",
            False,
        )
    finally:
        watch.close()


def _cgroups() -> Check:
    try:
        hierarchy = choose_hierarchy("auto")
        found = mounts()
        count = sum(1 for mount in found for _ in walk(mount))
    except (CotenantError, OSError) as error:
        return Check("cgroups", False, str(error), "mount cgroup2 at /sys/fs/cgroup")
    if not found:
        return Check("cgroups", False, "none is mounted", "mount cgroup2 at /sys/fs/cgroup")
    v1 = f", version 1 {hierarchy.controller} beside it" if hierarchy.controller else ""
    kinds = "version 2" if any(mount.hierarchy == 0 for mount in found) else "no version 2"
    others = f" ({len(v1_hierarchies())} controllers of version 1)" if v1_hierarchies() else ""
    return Check("cgroups", True, f"{kinds}{v1}{others}: {count} cgroups")


def _existing(path: Path) -> Path:
    """The nearest directory above that exists."""
    while not path.exists():
        path = path.parent
    return path


def _store(store: Path, user: RecorderUser) -> Check:
    try:
        check_way(store)
        place = _existing(store)
        if place == store:
            check_owner(store.resolve(), user.uid)
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(b"x")
        free = shutil.disk_usage(place).free
    except OSError as error:
        return Check("store", False, f"{store}: {error.strerror}", "choose another with --store")
    except StoreError as error:
        what, _, todo = str(error).rpartition("; ")
        return Check("store", False, what, todo)
    found = f"{store}: writable, {free / (1 << 30):.0f} GiB free"
    return Check("store", free > _FREE_BYTES, found, "" if free > _FREE_BYTES else "make room")


def _confinement(store: Path, user: RecorderUser) -> Check:
    """Give everything up in a child, as the recorder does."""
    place = os.open(_existing(store), os.O_PATH | os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            become(user)
            confined = confine(write=[Path(f"/proc/self/fd/{place}")])
            code = 0 if confined and refuse_calls(Role.RECORDER) else 2
        finally:
            os._exit(code)
    os.close(place)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    found = {
        0: f"{user}, no capability, no files but what recording takes",
        2: f"{user}, no capability; no Landlock or no seccomp here",
    }
    return Check(
        "recorder's confinement",
        code in found,
        found.get(code, f"cannot become {user}"),
        {0: "", 2: "a kernel with both also confines what it reads and calls"}.get(
            code, "give CAP_SETUID and CAP_SETGID"
        ),
        code not in found,
    )


# Cgroups of nobody, one for each runtime's way of naming: asking about them tries the source.
_NOBODY: Final = (
    "/docker/" + "0" * 64,
    f"/machine.slice/libpod-{'0' * 64}.scope",
    f"/kubepods.slice/kubepods-pod{'0' * 32}.slice/cri-containerd-{'0' * 64}.scope",
    f"/kubepods.slice/kubepods-pod{'0' * 32}.slice/crio-{'0' * 64}.scope",
    "/system.slice/slurmstepd.scope/job_0/step_0",
)


def _runtimes() -> Iterator[Check]:
    resolver = default_resolver(
        [mount.directory for mount in mounts()], source_settings(os.environ)
    )
    for path in _NOBODY:
        resolver.lookup(parse_path(path), path)
    for status in resolver.status():
        words = {"ready": "answers", "absent": "not on this host", "unused": "nothing to ask yet"}
        found = words.get(status.state) or f"fails: {status.last_error}"
        yield Check(
            f"names from {status.name}",
            status.state != "failing",
            f"{status.where}: {found}" if status.where else found,
            "" if status.state != "failing" else "until it answers, its containers show by id",
            False,
        )


def _stepping(method: Method) -> Check:
    """What a probe costs that the kernel has to step out of line."""
    trial = attempt(method)
    cost = f"{trial.stepped_ns / 1e3:.1f} us a call, emulated ones {trial.cost_ns / 1e3:.1f} us"
    used = choose_stepping("auto", method) is not Stepping.NONE
    what = "used where no other is possible" if used else "not used, unless with --probes any"
    return Check("single-stepped probes", used, f"{cost}: {what}", "", False)


def _libraries(stepping: Stepping) -> Iterator[Check]:
    root = open_root(os.getpid())
    try:
        seen = False
        for path in find_libraries(root):
            try:
                fd = open_file(root, path)
            except OSError:
                continue
            try:
                found = plan(fd, FUNCTIONS, stepping)
            except BadElf as error:
                seen = True
                yield Check("library", False, f"{path}: cannot be read: {error}", "", False)
                continue
            finally:
                os.close(fd)
            if found is not None:
                seen = True
                yield _library(path, found)
        if not seen:
            yield Check(
                "libraries",
                True,
                "no GPU library on the host; containers may bring theirs",
                "",
                False,
            )
    finally:
        os.close(root)


def _library(path: str, found: Plan) -> Check:
    words = f"{path}: {len(found.placed)} functions"
    if found.stepped:
        words += f", {found.stepped} of them single-stepped"
    return Check(
        f"library {'/'.join(found.kinds)}",
        bool(found.placed) and not found.blind,
        words,
        blindness(found.refused) if found.blind else "",
        found.blind,
        tuple(by_reason(found.refused)),
    )


def examine(store: Path, started: Callable[[str], None]) -> Iterator[Check]:
    """Every check, one after the other; what needs root is left out without it."""
    root = _root()
    user = RecorderUser.chosen(None)
    yield root
    yield _btf()
    yield _cgroups()
    yield _store(store, user)
    if not root.holds:
        return
    methods = []
    for method in Method:
        started(f"probes by {method}")
        methods.append(_attach(method))
        yield methods[-1]
    yield _any_method(methods)
    best = next((m for m in Method if why_not(m) is None), Method.PAIR)
    yield _stepping(best)
    started("a recording")
    yield from _recording()
    yield _mappings()
    yield _confinement(store, user)
    yield from _runtimes()
    yield from _libraries(choose_stepping("auto", best))
