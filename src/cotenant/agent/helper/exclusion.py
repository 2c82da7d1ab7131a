"""Tenants that asked to be left alone: told to the programs as soon as they can be recognised.

By path when the cgroup is made, before anything runs in it; by name when the runtime answers. What
a tenant calls itself does not count: nobody asks to be left alone but the operator.
"""

import mmap
import os
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cotenant.agent.config import Config
from cotenant.agent.helper.fair_queue import PassedOver, outermost
from cotenant.agent.helper.tenants import key_of
from cotenant.identity import Ledger, Names, parse_path
from cotenant.identity.walk import mounts, survey, walk
from cotenant.probes import syscalls
from cotenant.schema.constants import EXCLUDED_MAX
from cotenant.schema.layouts import CONTROL


class Exclusion:
    """Keeps the kernel's list of excluded cgroups.

    Where the outermost cgroup of a tenant is on it, so is all that is the tenant's. Whoever has
    more cgroups besides than there is room for takes nobody else's: as many of one tenant's are
    told as are still free.
    """

    def __init__(
        self, excluded_fd: int, controls_fd: int, config: Config, passed_over: PassedOver
    ) -> None:
        self._fd = excluded_fd
        self._passed_over = passed_over
        self._free = EXCLUDED_MAX
        self._told: dict[bytes, str] = {}  # Whose each is.
        self._left_out: set[bytes] = set()
        self._counts: Counter[str] = Counter()
        self._patterns: Sequence[str] = config.exclude
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        self._ledger = Ledger(os.uname().nodename, boot, rules=config.rules)
        # In the order in which they were made: the outermost of a tenant comes first.
        self._by_key: dict[str, dict[tuple[int, int], None]] = {}
        self._lock = threading.Lock()
        if not self._patterns:
            return
        page = mmap.mmap(controls_fd, mmap.PAGESIZE)
        np.frombuffer(page, CONTROL, count=1)["excludes"] = 1
        self._page = page
        there = mounts()
        self._mounts = {mount.hierarchy: mount for mount in there}
        survey(self._ledger, there)
        for mount in there:
            for found in walk(mount):
                self.born(found.hierarchy, found.kernel_id, found.path)

    def born(self, hierarchy: int, kernel_id: int, path: str) -> None:
        """A cgroup exists at this path."""
        if not self._patterns:
            return
        with self._lock:
            self._ledger.born(hierarchy, kernel_id, path)
            alike = self._by_key.setdefault(parse_path(path).subject_path, {})
            alike[hierarchy, kernel_id] = None
            self._judge(hierarchy, kernel_id)

    def gone(self, hierarchy: int, kernel_id: int, path: str) -> None:
        """A cgroup is no more."""
        if not self._patterns:
            return
        key = parse_path(path).subject_path
        with self._lock:
            self._by_key.get(key, {}).pop((hierarchy, kernel_id), None)
            if not self._by_key.get(key):
                self._by_key.pop(key, None)
            self._ledger.removed(hierarchy, kernel_id, 1)
            self._ledger.forget(2)
            self._forget(key_of(hierarchy, kernel_id))

    def named(self, key: str, names: Names) -> None:
        """A runtime said who this is."""
        if not self._patterns:
            return
        with self._lock:
            self._ledger.named(key, names, time.time_ns())
            for cgroup in self._by_key.get(key, ()):
                self._judge(*cgroup)

    def _judge(self, hierarchy: int, kernel_id: int) -> None:
        if not self._ledger.excludes(hierarchy, kernel_id, self._patterns):
            return
        self._learn_owners(hierarchy, kernel_id)
        row = self._ledger.row(hierarchy, kernel_id)
        if row is not None and self._ledger.excludes(hierarchy, kernel_id, self._patterns):
            self._exclude(key_of(hierarchy, kernel_id), str(row["cgroup_path"]))

    def _exclude(self, key: bytes, path: str) -> None:
        if key in self._told or key in self._left_out:
            return
        tenant = outermost(path)
        if self._counts[tenant] < self._free and self._put(key):
            self._told[key] = tenant
            self._counts[tenant] += 1
            self._free -= 1
        else:
            self._left_out.add(key)
            self._passed_over.add("exclusions", tenant)

    def _put(self, key: bytes) -> bool:
        try:
            syscalls.map_update(self._fd, key, b"\1")
        except OSError:  # No room, or no memory.
            return False
        return True

    def _forget(self, key: bytes) -> None:
        self._left_out.discard(key)
        tenant = self._told.pop(key, None)
        if tenant is not None:
            syscalls.map_delete(self._fd, key)
            self._free += 1
            self._counts[tenant] -= 1
            if not self._counts[tenant]:
                del self._counts[tenant]

    def _learn_owners(self, hierarchy: int, kernel_id: int) -> None:
        """Who was given the directories above: below these, users make and name what they like."""
        row, mount = self._ledger.row(hierarchy, kernel_id), self._mounts.get(hierarchy)
        if row is None or mount is None:
            return
        for above in Path(str(row["cgroup_path"])).parents[:-1]:
            try:
                status = os.stat(mount.directory / str(above).lstrip("/"), follow_symlinks=False)
            except (OSError, ValueError):
                continue
            self._ledger.born(hierarchy, status.st_ino, str(above), owner_uid=status.st_uid)
