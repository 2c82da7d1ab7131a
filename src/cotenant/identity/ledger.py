"""Every cgroup ever seen, whose it was, and the id that its events carry.

Facts come in from the kernel's tracepoints, a walk of cgroupfs and the resolver, in any
order and more than once; rows of ``containers`` go out. A cgroup that only an event told
of has a row too, and gets its name when its birth is told.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from cotenant.identity import ids
from cotenant.identity.naming.names import Names
from cotenant.identity.path.parser import parse_path
from cotenant.identity.rows import (
    Cgroup,
    Row,
    Subject,
    above,
    blank_row,
    excluded,
    given_row,
    known_row,
    owner_is_plain,
)
from cotenant.identity.tenant import HOST, KERNEL, UNKNOWN, TenantRule
from cotenant.identity.translation import Preference, Told, choose, distinct_pairs

Ids = npt.NDArray[np.uint64]
_AUTO: Final = Preference()
_EARLY_MAX: Final = 1024


class Ledger:
    """The recorder's memory of cgroups; one per node and boot, used by one thread.

    ``v1_hierarchy`` is the kernel's number of the v1 hierarchy whose id the wire header
    carries. Where no cgroup2 file system is mounted, ``preference`` says so, because the v2
    root then identifies no tenant.
    """

    def __init__(
        self,
        node: str,
        boot_id: str,
        *,
        v1_hierarchy: int | None = None,
        preference: Preference = _AUTO,
        rules: Sequence[TenantRule] = (),
    ) -> None:
        self.node = node
        self.boot_id = boot_id
        self.v1_hierarchy = v1_hierarchy
        self.preference = preference
        self.version = 0  # Grows whenever some row changed.
        self._rules = tuple(rules)
        self._cgroups: dict[tuple[int, int], Cgroup] = {}
        self._by_path: dict[str, dict[int, Cgroup]] = {}
        self._subjects: dict[str, Subject] = {}
        self._subject_of: dict[int, Subject] = {}  # By cgroup_id.
        self._early: dict[str, tuple[Names, int]] = {}  # By key: names, and when they came.
        self._pairs: dict[tuple[int, int], int] = {}
        self._rows: dict[int, Row] = {}  # By cgroup_id, until something about it changes.
        self.kernel_id = ids.kernel_row_id(node, boot_id)
        self.unknown_id = ids.unknown_row_id(node, boot_id)
        self.born(ids.V2, ids.ROOT, "/")

    # Facts in.

    def born(
        self,
        hierarchy: int,
        kernel_id: int,
        path: str,
        created_ns: int | None = None,
        owner_uid: int | None = None,
        maker_uid: int = 0,
    ) -> None:
        """A cgroup exists at this path; told twice, the first creation time stays.

        Whoever made it, if not root, was given the directory that it is in.
        """
        cgroup = self._at(hierarchy, kernel_id)
        if maker_uid:
            owner_uid = maker_uid
            there = self._by_path.get(path.rpartition("/")[0], {}).get(hierarchy)
            if there and not there.owner_uid:
                self._owned(there, maker_uid)
        if cgroup.path == path:
            if cgroup.created_ns is None and created_ns is not None:
                cgroup.created_ns = created_ns
                self._changed(cgroup)
            self._owned(cgroup, owner_uid)
            return
        if cgroup.path is not None:
            self.renamed(hierarchy, kernel_id, path)
            return
        cgroup.created_ns = cgroup.created_ns or created_ns
        self._place(cgroup, path)
        self._owned(cgroup, owner_uid)

    def removed(self, hierarchy: int, kernel_id: int, removed_ns: int) -> None:
        """A cgroup is gone; its row stays."""
        cgroup = self._at(hierarchy, kernel_id)
        if cgroup.removed_ns is not None:
            return
        cgroup.removed_ns = removed_ns
        self._changed(cgroup)
        if subject := self._subject_of.get(cgroup.cgroup_id):
            subject.live -= 1
            subject.ended = subject.live <= 0

    def renamed(self, hierarchy: int, kernel_id: int, path: str) -> None:
        """A cgroup has a new path, and with it all below it."""
        cgroup = self._at(hierarchy, kernel_id)
        old = cgroup.path
        if old is None or old == path:
            if old is None:
                self._place(cgroup, path)
            return
        below = [c for c in self._cgroups.values() if c.hierarchy == hierarchy and c.path]
        for child in below:
            if child is not cgroup and child.path and child.path.startswith(f"{old}/"):
                self._place(child, path + child.path[len(old) :])
        self._place(cgroup, path)

    def named(self, key: str, names: Names, named_ns: int) -> None:
        """Names came for the subject of this key; early ones are kept until it is born."""
        subject = self._subjects.get(key)
        if subject is None or subject.ended:
            # A name may overtake the birth it belongs to, also where a path is used again.
            self._early[key] = names, named_ns
            while len(self._early) > _EARLY_MAX:
                del self._early[next(iter(self._early))]
        if subject is None or subject.names == names:
            return
        subject.named(names, named_ns)
        for member in subject.members:
            self._rows.pop(member, None)
        self._pairs.clear()
        self.version += 1

    def shared(self, cgroup_id: int, sharing_mode: str) -> None:
        """How the cgroup's processes share their GPU."""
        for cgroup in self._cgroups.values():
            if cgroup.cgroup_id == cgroup_id and cgroup.sharing_mode != sharing_mode:
                cgroup.sharing_mode = sharing_mode
                self._changed(cgroup)

    # Ids out.

    def cgroup_id(self, hierarchy: int, kernel_id: int) -> int:
        """The id that rows and events of this cgroup carry."""
        return ids.cgroup_id(self.node, self.boot_id, hierarchy, kernel_id)

    def translate(self, v2_ids: Ids, v1_ids: Ids | None = None) -> npt.NDArray[np.int64]:
        """The ``cgroup_id`` of each event, from the ids in its wire header."""
        other = np.zeros_like(v2_ids) if v1_ids is None else v1_ids
        pairs, inverse = distinct_pairs(v2_ids, other)
        chosen = np.fromiter((self._pair(pair) for pair in pairs), np.int64, len(pairs))
        result: npt.NDArray[np.int64] = chosen[inverse]
        return result

    def translate_in(self, hierarchy: int, kernel_ids: Ids) -> npt.NDArray[np.int64]:
        """The same for ids of one given hierarchy, such as blkio's on a v1 host."""
        if hierarchy == ids.V2:
            return self.translate(kernel_ids)
        pairs, inverse = distinct_pairs(kernel_ids, np.zeros_like(kernel_ids))
        chosen = [self._single(hierarchy, kernel_id) for kernel_id, _ in pairs]
        result: npt.NDArray[np.int64] = np.array(chosen, np.int64)[inverse]
        return result

    def outermost(self, v2_id: int, v1_id: int = 0, unknown: str = "/") -> str:
        """The path of the outermost cgroup that is somebody's, of those that an event carries."""
        keys = (ids.V2, v2_id), (self.v1_hierarchy or ids.V2, v1_id)
        paths = [self._cgroups[k].outermost(self._owner_uid) for k in keys if k in self._cgroups]
        return next((path for path in paths if path != "/"), "/" if paths else unknown)

    def at_path(self, path: str) -> Row | None:
        """The row of the cgroup at this path; None if there is none that we know."""
        if not (there := self._by_path.get(path)):
            return None
        cgroup = self._same(there[min(there)])
        self._refer(cgroup)
        return self._row(cgroup)

    # Rows out.

    def rows(self) -> list[Row]:
        """The ``containers`` table; the same path in another hierarchy is no second row.

        Rows that did not change are the same objects as before, not to be written to.
        """
        rows = [self._pseudo(self.kernel_id, KERNEL), self._pseudo(self.unknown_id, UNKNOWN)]
        rows += [self._row(cgroup) for cgroup in self._cgroups.values() if self._shown(cgroup)]
        return rows

    def settled_rows(self, before_ns: int) -> tuple[list[Row], bool]:
        """Those rows that will stay, and whether there are others.

        A runtime makes a container's cgroups one after the other, so one that was born after
        ``before_ns`` in another hierarchy may turn out to be the same as one of version 2.
        """
        young = {
            cgroup.cgroup_id
            for cgroup in self._cgroups.values()
            if cgroup.hierarchy != ids.V2
            and not cgroup.referenced
            and (cgroup.created_ns or 0) >= before_ns
        }
        rows = self.rows()
        settled = [row for row in rows if row["cgroup_id"] not in young]
        return settled, len(settled) < len(rows)

    def row(self, hierarchy: int, kernel_id: int) -> Row | None:
        """One cgroup's row; None if it was never seen."""
        cgroup = self._cgroups.get((hierarchy, kernel_id))
        return self._row(cgroup) if cgroup else None

    def live(self, hierarchy: int) -> list[tuple[int, str]]:
        """Cgroups of a hierarchy that are there now, by kernel id and path, if that is known."""
        mine = (c for c in self._cgroups.values() if c.hierarchy == hierarchy)
        return [(c.kernel_id, c.path) for c in mine if c.path and c.removed_ns is None]

    def excludes(self, hierarchy: int, kernel_id: int, patterns: Sequence[str]) -> bool:
        """Whether an ``exclude`` pattern covers this cgroup, by what its tenant cannot choose."""
        cgroup = self._cgroups.get((hierarchy, kernel_id))
        if cgroup is None or cgroup.path is None:
            return False
        subject, claimed_by = self._subject_of.get(cgroup.cgroup_id), self._claimed_by(cgroup)
        given = [path for path in above(cgroup.path) if self._owner_uid(hierarchy, path)]
        return excluded(given_row(cgroup, subject, self._rules, claimed_by, given), patterns)

    def forget(self, before_ns: int) -> list[Row]:
        """Drop cgroups removed before this time; their last rows, for the caller to keep.

        One that only an event told of was forgotten before, or will be told of again.
        """
        gone = [c for c in self._cgroups.values() if c.is_past(before_ns)]
        rows = [self._row(cgroup) for cgroup in gone if self._shown(cgroup)]
        for cgroup in gone:
            del self._cgroups[cgroup.hierarchy, cgroup.kernel_id]
            self._unlink(cgroup)
        self._early = {key: kept for key, kept in self._early.items() if kept[1] >= before_ns}
        self._pairs.clear()
        self.version += bool(gone)
        return rows

    # Inside.

    def _at(self, hierarchy: int, kernel_id: int) -> Cgroup:
        key = (hierarchy, kernel_id)
        if key not in self._cgroups:
            self._cgroups[key] = Cgroup(hierarchy, kernel_id, self.cgroup_id(*key))
            self.version += 1
        return self._cgroups[key]

    def _changed(self, cgroup: Cgroup) -> None:
        self._rows.pop(cgroup.cgroup_id, None)
        self.version += 1

    def _owned(self, cgroup: Cgroup, owner_uid: int | None) -> None:
        if owner_uid is None or owner_uid == cgroup.owner_uid:
            return
        cgroup.owner_uid = owner_uid
        if owner_uid:  # It decides whose the cgroups below are.
            self._rows.clear()
            self.version += 1

    def _place(self, cgroup: Cgroup, path: str) -> None:
        self._unlink(cgroup)
        cgroup.path = path
        cgroup.identity = identity = parse_path(path)
        self._by_path.setdefault(path, {})[cgroup.hierarchy] = cgroup
        self._pairs.clear()
        self._changed(cgroup)
        subject = self._subjects.get(key := identity.subject_path)
        if subject is None or subject.ended:
            subject = self._subjects[key] = Subject(key)
            names, named_ns = self._early.pop(key, (None, 0))
            # What came before the birth is another's, who used the path before.
            if names is not None and named_ns >= (cgroup.created_ns or 0):
                subject.named(names, named_ns)
        subject.live += cgroup.removed_ns is None
        subject.members.add(cgroup.cgroup_id)
        self._subject_of[cgroup.cgroup_id] = subject

    def _unlink(self, cgroup: Cgroup) -> None:
        if cgroup.path is None:
            return
        there = self._by_path.get(cgroup.path, {})
        if there.get(cgroup.hierarchy) is cgroup:
            del there[cgroup.hierarchy]
            if not there:
                del self._by_path[cgroup.path]
        self._rows.pop(cgroup.cgroup_id, None)
        subject = self._subject_of.pop(cgroup.cgroup_id, None)
        if subject:
            subject.members.discard(cgroup.cgroup_id)
        if subject and cgroup.removed_ns is None:
            subject.live -= 1
            subject.ended = subject.live <= 0
        if subject and subject.ended and self._subjects.get(subject.path) is subject:
            del self._subjects[subject.path]

    def _same(self, cgroup: Cgroup) -> Cgroup:
        """The cgroup of the same path in the hierarchy that counts: v2, else the v1 one."""
        if cgroup.path is None or cgroup.hierarchy == ids.V2:
            return cgroup
        there = self._by_path.get(cgroup.path, {})
        for hierarchy in (ids.V2, self.v1_hierarchy):
            if hierarchy == cgroup.hierarchy:
                break
            other = there.get(hierarchy) if hierarchy is not None else None
            if other and cgroup.lived_with(other):
                return other
        return cgroup

    def _shown(self, cgroup: Cgroup) -> bool:
        return cgroup.referenced or self._same(cgroup) is cgroup

    def _refer(self, cgroup: Cgroup) -> int:
        if not cgroup.referenced:
            cgroup.referenced = True
            self.version += 1
        return cgroup.cgroup_id

    def _pair(self, pair: tuple[int, int]) -> int:
        if pair not in self._pairs:
            self._pairs[pair] = self._resolve(*pair)
        return self._pairs[pair]

    def _resolve(self, v2_id: int, v1_id: int) -> int:
        if v2_id == ids.NOBODY:
            return self.kernel_id
        v2, v1 = self._told(ids.V2, v2_id), self._told(self.v1_hierarchy, v1_id)
        if self.v1_hierarchy is not None and choose(self.preference, v2, v1) == "v1":
            return self._single(self.v1_hierarchy, v1_id)
        if v2_id == ids.UNTOLD:
            return self.unknown_id
        return self._refer(self._at(ids.V2, v2_id))

    def _told(self, hierarchy: int | None, kernel_id: int) -> Told:
        if hierarchy is None or kernel_id in (ids.UNTOLD, ids.NOBODY):
            return Told()
        cgroup = self._cgroups.get((hierarchy, kernel_id))
        return Told(True, cgroup, cgroup is not None and self._confirmed(cgroup))

    def _single(self, hierarchy: int, kernel_id: int) -> int:
        if kernel_id == ids.NOBODY:
            return self.kernel_id
        if kernel_id == ids.UNTOLD:
            return self.unknown_id
        if kernel_id == ids.ROOT:
            return self._refer(self._at(ids.V2, ids.ROOT))
        return self._refer(self._same(self._at(hierarchy, kernel_id)))

    def _confirmed(self, cgroup: Cgroup) -> bool:
        subject = self._subject_of.get(cgroup.cgroup_id)
        return bool(subject and subject.names and subject.names.confirmed)

    def _claimed_by(self, cgroup: Cgroup) -> int | None:
        """The user who owns a directory above, and could have made this one."""
        identity = cgroup.identity
        if identity is None or not owner_is_plain(identity) or self._confirmed(cgroup):
            return None
        owners = (self._owner_uid(cgroup.hierarchy, path) for path in above(identity.owner_path))
        return next((owner for owner in reversed(list(owners)) if owner), None)

    def _owner_uid(self, hierarchy: int, path: str) -> int | None:
        there = self._by_path.get(path, {}).get(hierarchy)
        return there.owner_uid if there else None

    def _pseudo(self, cgroup_id: int, tenant: str) -> Row:
        return blank_row(cgroup_id, tenant, self.node, self.boot_id)

    def _row(self, cgroup: Cgroup) -> Row:
        if cgroup.cgroup_id not in self._rows:
            self._rows[cgroup.cgroup_id] = self._new_row(cgroup)
        return self._rows[cgroup.cgroup_id]

    def _new_row(self, cgroup: Cgroup) -> Row:
        row = self._pseudo(cgroup.cgroup_id, UNKNOWN)
        row |= {
            "kernel_cgroup_id": cgroup.kernel_id,
            "hierarchy": cgroup.hierarchy,
            "sharing_mode": cgroup.sharing_mode,
            "created_ns": cgroup.created_ns,
            "removed_ns": cgroup.removed_ns,
        }
        if cgroup.path is None:
            return row
        if cgroup.path == "/":
            return row | {"cgroup_path": "/", "container_id": HOST, "tenant": HOST, "trust": HOST}
        subject = self._subject_of.get(cgroup.cgroup_id)
        return known_row(
            row, cgroup, subject, rules=self._rules, claimed_by=self._claimed_by(cgroup)
        )
