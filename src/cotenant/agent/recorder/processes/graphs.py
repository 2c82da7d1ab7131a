"""CUDA graphs of every process: which kernels each one runs, through capture and update.

A graph is built (or captured), instantiated, launched, and may be updated; what a launch runs is
what its executable form held at that time. So the handle of an executable graph has eras: one per
version, and after the graph is destroyed the versions of the next one at the same address.
"""

import hashlib
import sys
from collections import Counter, deque
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any, Final

from cotenant.agent.process import Departed, Process
from cotenant.agent.recorder.processes.allowance import Allowances
from cotenant.agent.recorder.processes.graph_names import GraphNames
from cotenant.agent.recorder.processes.kernel_names import KernelNames
from cotenant.agent.recorder.processes.process_graphs import (
    Exec,
    Graph,
    ProcessGraphs,
    Version,
    replace_node,
)
from cotenant.agent.recorder.processes.shares import Shares
from cotenant.probes.tables import BY_ID

_GRAPHS_MAX: Final = 65536  # Per process.
_MAKING: Final = frozenset({"begin", "create", "clone", "kernel", "child", "instantiate"})
# Rows that need what was superseded come within this time.
_KEPT_NS: Final = 30_000_000_000
_SWEEP_NS: Final = 1_000_000_000
_PAST_MAX: Final = 262_144  # Versions and graphs of all tenants that are past.
_HELD_MAX: Final = 1 << 19  # Graphs of one tenant, and kernels in them.
_LOOKED_THROUGH: Final = 8  # Graphs, for what one kernel of a copy costs.
_ROW_COST: Final = 16  # Kernels to go through, for what a row costs.
_ROW_BYTES_MAX: Final = 64 << 20  # Names in rows of all tenants that wait to be written.
_OF_EXEC: Final = frozenset({"instantiate", "update", "exec_set"})
# Where a step has the handle of the kernel that it is about.
_KERNEL_AT: Final = {
    "launch": "handle", "kernel": "other", "node": "address", "set": "other", "exec_set": "other"
}  # fmt: skip
_KEEPING: Final = _MAKING | {"launch", "graph_launch", "update", "node", "set"}


# The versions of a handle, of which the first is past; or a graph of a process, by its handle.
_Bygone = list[Version] | tuple[dict[int, Exec], int]


class _Past:
    """What rows that are on their way may still need; of each tenant, the oldest first.

    A tenant that supersedes without end loses its own past early, and takes nobody else's.
    """

    def __init__(self, most: int) -> None:
        self._shares = Shares(most)
        self._by_tenant: dict[str, deque[tuple[int, _Bygone]]] = {}
        self._swept_ns = 0

    def __len__(self) -> int:
        return sum(map(len, self._by_tenant.values()))

    def add(self, tenant: str, when_ns: int, bygone: _Bygone) -> None:
        """From this time on it is past."""
        mine = self._by_tenant.setdefault(tenant, deque())
        while mine and self._shares.over(tenant):
            self._drop(tenant, mine)
        mine.append((when_ns, bygone))
        self._shares.count(tenant, 1)

    def forget(self, tenant: str, before_ns: int) -> None:
        """Drop what no row can need any more."""
        tenants = [tenant]
        if abs(before_ns - self._swept_ns) >= _SWEEP_NS:  # Others may have no more facts.
            self._swept_ns = before_ns
            tenants = list(self._by_tenant)
        for each in tenants:
            mine = self._by_tenant.get(each)
            while mine and mine[0][0] < before_ns:
                self._drop(each, mine)
            if mine is not None and not mine:
                del self._by_tenant[each]

    def _drop(self, tenant: str, mine: deque[tuple[int, _Bygone]]) -> None:
        when_ns, bygone = mine.popleft()
        self._shares.count(tenant, -1)
        if isinstance(bygone, list):
            del bygone[0]
            return
        execs, handle = bygone
        exec_ = execs.get(handle)
        if exec_ is not None and exec_.destroyed_ns == when_ns:
            del execs[handle]


class Graphs:
    """Follows the calls that build, instantiate and update graphs."""

    def __init__(
        self,
        names: KernelNames,
        seed: str,
        whose: Callable[[int, int], str] = lambda *_: "",
        most_past: int = _PAST_MAX,
    ) -> None:
        """``whose`` says which tenant a process in these cgroups belongs to."""
        self._names = names
        self._seed = seed
        self._whose = whose
        self._allowances = Allowances(_HELD_MAX, self._held)
        self._processes: dict[Process, ProcessGraphs] = {}
        self._departed = Departed()
        self._kept = GraphNames(self._names_used, self._drop_ended)
        self._new: list[dict[str, Any]] = []
        self._new_bytes = Shares(_ROW_BYTES_MAX)
        self._past = _Past(most_past)

    def versions(self, process: Process, handle: int) -> list[Version]:
        """Every version of what a handle stood for lately, oldest first."""
        known = self._processes.get(process)
        found = known.execs.get(handle) if known else None
        if found is None or not found.versions:
            name = self._name(process, handle, 0)
            return [Version(0, 0, f"{name}.0", name)]
        return found.versions

    def take(self, fact: Any, process: Process) -> None:
        """A step in the life of a graph."""
        known = self._of(process, fact)
        self._past.forget(known.tenant, int(fact["timestamp_ns"]) - _KEPT_NS)
        function = BY_ID.get(int(fact["function"]))
        name = (function.graph or function.op) if function else ""
        full = len(known.graphs) + len(known.captures) + len(known.execs) > _GRAPHS_MAX
        if full and name in _MAKING and int(fact["address"]) not in known.execs:
            self._allowances.refused[known.tenant] += 1
            return
        step = getattr(self, f"_{name}", None)
        if step is None:
            return
        work = self._work(known, name, fact)
        kept = max(work, 1) if name in _KEEPING else 0
        spent = self._allowances.spend(known.tenant, work, kept, int(fact["timestamp_ns"]))
        about = self._about(known, process, name, fact) if spent else None
        if about is not None:
            step(known, about, fact)
        elif name in _OF_EXEC:
            # What it runs is not known any more.
            known.execs.pop(int(fact["address" if name == "instantiate" else "handle"]), None)

    @property
    def refused(self) -> dict[str, int]:
        """Steps beyond what a tenant may have us do, by tenant."""
        return self._allowances.refused

    def _about(
        self, known: ProcessGraphs, process: Process, name: str, fact: Any
    ) -> Process | str | None:
        """The kernel that a step is about, else the process; None if there is no room for it."""
        if name not in _KERNEL_AT:
            return process
        kernel = self._names.name(process, int(fact[_KERNEL_AT[name]]), 0)
        found = self._kept.keep(known.tenant, kernel, int(fact["timestamp_ns"]))
        if found is None:
            self._allowances.refused[known.tenant] += 1
        return found

    def _names_used(self) -> dict[str, set[str]]:
        """Kernels in the graphs of each tenant."""
        found: dict[str, set[str]] = {}
        for known in self._processes.values():
            found.setdefault(known.tenant, set()).update(known.names())
        return found

    def _drop_ended(self, tenant: str) -> bool:
        """Forget the graphs of a tenant's ended processes."""
        ended = list(iter(lambda: self._departed.oldest(tenant), None))
        for process in ended:
            self._processes.pop(process, None)
        return bool(ended)

    def _of(self, process: Process, fact: Any) -> ProcessGraphs:
        known = self._processes.get(process)
        if known is None:
            whose = self._whose(int(fact["cgroup_id"]), int(fact["cgroup_v1_id"]))
            known = self._processes[process] = ProcessGraphs(tenant=whose)
        return known

    def _held(self, tenant: str) -> int:
        """Kernels in a tenant's graphs. There is no room: those of ended processes go first."""
        held = sum(known.size for known in self._processes.values() if known.tenant == tenant)
        while held > _HELD_MAX // 2 and (oldest := self._departed.oldest(tenant)):
            held -= self._processes.pop(oldest).size
        return held

    def _work(self, known: ProcessGraphs, name: str, fact: Any) -> int:
        """About how much there is to copy or to look through."""
        handle, other = int(fact["handle"]), int(fact["other"])
        if name in ("set", "drop"):
            return len(known.graphs) // _LOOKED_THROUGH
        source: Graph | Exec | None = None
        if name in ("clone", "instantiate"):
            source = known.graphs.get(handle)
        elif name in ("child", "update"):
            source = known.graphs.get(other)
        elif name in ("graph_launch", "exec_set"):
            source = known.execs.get(handle)
        graph = source.graph if isinstance(source, Exec) else source
        return graph.size if graph is not None else 0

    def take_rows(self) -> list[dict[str, Any]]:
        """Rows of ``graph_kernels`` since the last call, with the fact that they came from."""
        rows, self._new, self._new_bytes = self._new, [], Shares(_ROW_BYTES_MAX)
        return rows

    def gone(self, process: Process) -> None:
        """The process ended; its last rows may still be on their way."""
        if (known := self._processes.get(process)) is None:
            return
        known.node_kernels.clear()
        if oldest := self._departed.add(process, known.tenant):
            self._processes.pop(oldest, None)

    def sweep(self, followed: AbstractSet[Process]) -> None:
        """Let go of processes that ended, of all that the kernel has not ``followed`` since."""
        self._departed.sweep(self._processes, followed, self.gone, self._processes.pop)

    # Capture.

    def _begin(self, known: ProcessGraphs, process: Process, fact: Any) -> None:
        into = known.graphs.get(int(fact["handle"]))
        known.captures[int(fact["other"])] = into if into is not None else Graph()

    def _launch(self, known: ProcessGraphs, kernel: str, fact: Any) -> None:
        capture = known.captures.get(int(fact["other"]))
        if capture is not None:
            capture.loose[kernel] += 1

    def _graph_launch(self, known: ProcessGraphs, process: Process, fact: Any) -> None:
        capture = known.captures.get(int(fact["other"]))
        child = known.execs.get(int(fact["handle"]))
        if capture is not None and child is not None:
            capture.include(child.graph)

    def _end(self, known: ProcessGraphs, process: Process, fact: Any) -> None:
        captured = known.captures.pop(int(fact["other"]), None)
        if captured is not None and int(fact["address"]):
            known.graphs[int(fact["address"])] = captured

    # Building.

    def _create(self, known: ProcessGraphs, process: Process, fact: Any) -> None:
        known.graphs[int(fact["address"])] = Graph()

    def _clone(self, known: ProcessGraphs, process: Process, fact: Any) -> None:
        source = known.graphs.get(int(fact["handle"]), Graph())
        # The clone's nodes are others, which nobody has named.
        known.graphs[int(fact["address"])] = Graph(source.kernels())

    def _kernel(self, known: ProcessGraphs, kernel: str, fact: Any) -> None:
        graph = known.graphs.setdefault(int(fact["handle"]), Graph())
        graph.nodes[int(fact["address"])] = kernel
        known.call(int(fact["address"]), kernel)

    def _child(self, known: ProcessGraphs, process: Process, fact: Any) -> None:
        graph = known.graphs.setdefault(int(fact["handle"]), Graph())
        child = known.graphs.get(int(fact["other"]))
        if child is not None:
            graph.include(child)

    def _node(self, known: ProcessGraphs, kernel: str, fact: Any) -> None:
        known.call(int(fact["handle"]), kernel)

    def _set(self, known: ProcessGraphs, kernel: str, fact: Any) -> None:
        node = int(fact["handle"])
        before = known.node_kernels.get(node)
        for graph in known.graphs.values():
            replace_node(graph, node, before, kernel)
        known.call(node, kernel)

    def _drop(self, known: ProcessGraphs, process: Process, fact: Any) -> None:
        for graph in known.graphs.values():
            graph.nodes.pop(int(fact["handle"]), None)

    def _destroy(self, known: ProcessGraphs, process: Process, fact: Any) -> None:
        known.graphs.pop(int(fact["handle"]), None)

    # Running.

    def _instantiate(self, known: ProcessGraphs, process: Process, fact: Any) -> None:
        known.made += 1
        source, handle = known.graphs.get(int(fact["handle"])), int(fact["address"])
        before = known.execs.get(handle)
        made = Exec(
            source.copy() if source else Graph(),
            self._name(process, handle, known.made),
            before.versions if before else [],
        )
        known.execs[handle] = made
        self._version(known, made, fact)

    def _update(self, known: ProcessGraphs, process: Process, fact: Any) -> None:
        exec_, source = known.execs.get(int(fact["handle"])), known.graphs.get(int(fact["other"]))
        if exec_ is not None and source is not None:
            exec_.graph = source.copy()
            self._version(known, exec_, fact)

    def _exec_set(self, known: ProcessGraphs, kernel: str, fact: Any) -> None:
        exec_ = known.execs.get(int(fact["handle"]))
        if exec_ is None:
            return
        node = int(fact["address"])
        before = known.node_kernels.get(node)
        if replace_node(exec_.graph, node, before, kernel):
            self._version(known, exec_, fact)

    def _exec_destroy(self, known: ProcessGraphs, process: Process, fact: Any) -> None:
        exec_ = known.execs.get(int(fact["handle"]))
        if exec_ is not None and not exec_.destroyed_ns:
            exec_.graph, exec_.kernels = Graph(), Counter()
            exec_.destroyed_ns = int(fact["timestamp_ns"])
            bygone = known.execs, int(fact["handle"])
            self._past.add(known.tenant, exec_.destroyed_ns, bygone)

    def _version(self, known: ProcessGraphs, exec_: Exec, fact: Any) -> None:
        """Another version, unless it runs what the last one does."""
        kernels = exec_.graph.kernels()
        if exec_.number and kernels == exec_.kernels:
            return
        exec_.kernels = kernels
        exec_.number += 1
        graph = f"{exec_.name}.{exec_.number}"
        since = int(fact["timestamp_ns"])
        if exec_.versions:
            self._past.add(known.tenant, since, exec_.versions)
        exec_.versions.append(Version(since, exec_.number, graph, exec_.name))
        if not self._allowances.spend(known.tenant, _ROW_COST * len(kernels), 0, since):
            return  # A version of which nobody knows what it runs.
        size = sum(map(sys.getsizeof, kernels))
        if self._new_bytes.over(known.tenant, size):
            self._allowances.refused[known.tenant] += 1
            return
        self._new_bytes.count(known.tenant, size)
        for kernel, nodes in sorted(kernels.items()):
            self._new.append(
                {
                    "timestamp_ns": since,
                    "cgroup": (int(fact["cgroup_id"]), int(fact["cgroup_v1_id"])),
                    "graph": graph,
                    "version": exec_.number,
                    "kernel_name": kernel,
                    "nodes": nodes,
                }
            )

    def _name(self, process: Process, handle: int, number: int) -> str:
        text = f"{self._seed}/{process.pid}/{process.start_ns}/{handle}/{number}"
        return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
