"""CUDA graphs of every process: which kernels each one runs, through capture and update.

A graph is built (or captured), instantiated, launched, and may be updated; what a launch runs is
what its executable form held at that time. So the handle of an executable graph has eras: one per
version, and after the graph is destroyed the versions of the next one at the same address.
"""

import hashlib
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any, Final

from cotenant.agent.process import Departed, Process
from cotenant.agent.recorder.processes.kernel_names import KernelNames
from cotenant.probes.tables import BY_ID

_GRAPHS_MAX: Final = 65536  # Per process.
_MAKING: Final = frozenset({"begin", "create", "clone", "kernel", "child", "instantiate"})
# Rows that need what was superseded come within this time.
_KEPT_NS: Final = 30_000_000_000
_SUPERSEDED_MAX: Final = 65536  # Of all processes.
_NODES_MAX: Final = 262_144  # Per process.
_NODES_OF_KERNEL_MAX: Final = 1 << 32  # More than a driver has room for.


@dataclass(slots=True)
class _Graph:
    """What a graph holds: kernels by node where the node is known, the rest by count."""

    loose: Counter[str] = field(default_factory=Counter)
    nodes: dict[int, str] = field(default_factory=dict)

    def kernels(self) -> Counter[str]:
        return self.loose + Counter(self.nodes.values())

    def include(self, child: "_Graph") -> None:
        """All that another graph runs; of one that goes in again and again, some."""
        for name, nodes in child.kernels().items():
            self.loose[name] = min(self.loose[name] + nodes, _NODES_OF_KERNEL_MAX)

    def copy(self) -> "_Graph":
        return _Graph(self.loose.copy(), dict(self.nodes))


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an executable graph, since when, and what rows call it."""

    since_ns: int
    number: int
    graph: str  # Joins graph_kernels: one version of one executable graph.
    name: str


@dataclass(slots=True)
class _Exec:
    graph: _Graph
    name: str
    versions: list[Version]  # Of its handle: those of earlier graphs come first.
    number: int = 0
    destroyed_ns: int = 0
    kernels: Counter[str] = field(default_factory=Counter)  # Of the last version.


@dataclass(slots=True)
class _ProcessGraphs:
    """One process's graphs."""

    captures: dict[int, _Graph] = field(default_factory=dict)
    graphs: dict[int, _Graph] = field(default_factory=dict)
    execs: dict[int, _Exec] = field(default_factory=dict)
    node_kernels: dict[int, str] = field(default_factory=dict)
    made: int = 0

    def call(self, node: int, kernel: str) -> None:
        """The node runs this kernel."""
        self.node_kernels[node] = kernel
        while len(self.node_kernels) > _NODES_MAX:
            del self.node_kernels[next(iter(self.node_kernels))]


class Graphs:
    """Follows the calls that build, instantiate and update graphs."""

    def __init__(self, names: KernelNames, seed: str) -> None:
        self._names = names
        self._seed = seed
        self._processes: dict[Process, _ProcessGraphs] = {}
        self._departed = Departed()
        self._new: list[dict[str, Any]] = []
        # When, and of which handle: each stands for the first of the versions.
        self._superseded: deque[tuple[int, list[Version]]] = deque()
        self._destroyed: deque[tuple[int, dict[int, _Exec], int]] = deque()

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
        self._forget(int(fact["timestamp_ns"]) - _KEPT_NS)
        known = self._processes.setdefault(process, _ProcessGraphs())
        function = BY_ID.get(int(fact["function"]))
        name = (function.graph or function.op) if function else ""
        full = len(known.graphs) + len(known.captures) + len(known.execs) > _GRAPHS_MAX
        if full and name in _MAKING and int(fact["address"]) not in known.execs:
            return
        step = getattr(self, f"_{name}", None)
        if step is not None:
            step(known, process, fact)

    def take_rows(self) -> list[dict[str, Any]]:
        """Rows of ``graph_kernels`` since the last call, with the fact that they came from."""
        rows, self._new = self._new, []
        return rows

    def gone(self, process: Process) -> None:
        """The process ended; its last rows may still be on their way."""
        if process in self._processes and (oldest := self._departed.add(process)):
            self._processes.pop(oldest, None)

    def _forget(self, before_ns: int) -> None:
        """Drop what no row can need any more."""
        superseded, destroyed = self._superseded, self._destroyed
        while superseded and (superseded[0][0] < before_ns or len(superseded) > _SUPERSEDED_MAX):
            del superseded.popleft()[1][0]
        while destroyed and (destroyed[0][0] < before_ns or len(destroyed) > _SUPERSEDED_MAX):
            when, execs, handle = destroyed.popleft()
            exec_ = execs.get(handle)
            if exec_ is not None and exec_.destroyed_ns == when:
                del execs[handle]

    # Capture.

    def _begin(self, known: _ProcessGraphs, process: Process, fact: Any) -> None:
        into = known.graphs.get(int(fact["handle"]))
        known.captures[int(fact["other"])] = into if into is not None else _Graph()

    def _launch(self, known: _ProcessGraphs, process: Process, fact: Any) -> None:
        capture = known.captures.get(int(fact["other"]))
        if capture is not None:
            capture.loose[self._names.name(process, int(fact["handle"]), 0)] += 1

    def _graph_launch(self, known: _ProcessGraphs, process: Process, fact: Any) -> None:
        capture = known.captures.get(int(fact["other"]))
        child = known.execs.get(int(fact["handle"]))
        if capture is not None and child is not None:
            capture.include(child.graph)

    def _end(self, known: _ProcessGraphs, process: Process, fact: Any) -> None:
        captured = known.captures.pop(int(fact["other"]), None)
        if captured is not None and int(fact["address"]):
            known.graphs[int(fact["address"])] = captured

    # Building.

    def _create(self, known: _ProcessGraphs, process: Process, fact: Any) -> None:
        known.graphs[int(fact["address"])] = _Graph()

    def _clone(self, known: _ProcessGraphs, process: Process, fact: Any) -> None:
        source = known.graphs.get(int(fact["handle"]), _Graph())
        # The clone's nodes are others, which nobody has named.
        known.graphs[int(fact["address"])] = _Graph(source.kernels())

    def _kernel(self, known: _ProcessGraphs, process: Process, fact: Any) -> None:
        graph = known.graphs.setdefault(int(fact["handle"]), _Graph())
        name = self._names.name(process, int(fact["other"]), 0)
        graph.nodes[int(fact["address"])] = name
        known.call(int(fact["address"]), name)

    def _child(self, known: _ProcessGraphs, process: Process, fact: Any) -> None:
        graph = known.graphs.setdefault(int(fact["handle"]), _Graph())
        child = known.graphs.get(int(fact["other"]))
        if child is not None:
            graph.include(child)

    def _node(self, known: _ProcessGraphs, process: Process, fact: Any) -> None:
        name = self._names.name(process, int(fact["address"]), 0)
        known.call(int(fact["handle"]), name)

    def _set(self, known: _ProcessGraphs, process: Process, fact: Any) -> None:
        name = self._names.name(process, int(fact["other"]), 0)
        node = int(fact["handle"])
        before = known.node_kernels.get(node)
        for graph in known.graphs.values():
            _replace(graph, node, before, name)
        known.call(node, name)

    def _drop(self, known: _ProcessGraphs, process: Process, fact: Any) -> None:
        for graph in known.graphs.values():
            graph.nodes.pop(int(fact["handle"]), None)

    def _destroy(self, known: _ProcessGraphs, process: Process, fact: Any) -> None:
        known.graphs.pop(int(fact["handle"]), None)

    # Running.

    def _instantiate(self, known: _ProcessGraphs, process: Process, fact: Any) -> None:
        known.made += 1
        source, handle = known.graphs.get(int(fact["handle"])), int(fact["address"])
        before = known.execs.get(handle)
        made = _Exec(
            source.copy() if source else _Graph(),
            self._name(process, handle, known.made),
            before.versions if before else [],
        )
        known.execs[handle] = made
        self._version(made, fact)

    def _update(self, known: _ProcessGraphs, process: Process, fact: Any) -> None:
        exec_, source = known.execs.get(int(fact["handle"])), known.graphs.get(int(fact["other"]))
        if exec_ is not None and source is not None:
            exec_.graph = source.copy()
            self._version(exec_, fact)

    def _exec_set(self, known: _ProcessGraphs, process: Process, fact: Any) -> None:
        exec_ = known.execs.get(int(fact["handle"]))
        if exec_ is None:
            return
        node = int(fact["address"])
        name = self._names.name(process, int(fact["other"]), 0)
        before = known.node_kernels.get(node)
        if _replace(exec_.graph, node, before, name):
            self._version(exec_, fact)

    def _exec_destroy(self, known: _ProcessGraphs, process: Process, fact: Any) -> None:
        exec_ = known.execs.get(int(fact["handle"]))
        if exec_ is not None and not exec_.destroyed_ns:
            exec_.graph = _Graph()
            exec_.destroyed_ns = int(fact["timestamp_ns"])
            self._destroyed.append((exec_.destroyed_ns, known.execs, int(fact["handle"])))

    def _version(self, exec_: _Exec, fact: Any) -> None:
        """Another version, unless it runs what the last one does."""
        kernels = exec_.graph.kernels()
        if exec_.number and kernels == exec_.kernels:
            return
        exec_.kernels = kernels
        exec_.number += 1
        graph = f"{exec_.name}.{exec_.number}"
        since = int(fact["timestamp_ns"])
        if exec_.versions:
            self._superseded.append((since, exec_.versions))
        exec_.versions.append(Version(since, exec_.number, graph, exec_.name))
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


def _replace(graph: _Graph, node: int, before: str | None, after: str) -> bool:
    """One node runs another kernel; false where nothing changes or the node is not in it."""
    if node in graph.nodes:
        changed = graph.nodes[node] != after
        graph.nodes[node] = after
        return changed
    if before is None or before == after or graph.loose[before] < 1:
        return False
    graph.loose[before] -= 1
    graph.nodes[node] = after
    return True
