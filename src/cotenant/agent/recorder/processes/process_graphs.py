"""What is known of the graphs of one process."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

_NODES_MAX: Final = 262_144  # Per process.
_NODES_OF_KERNEL_MAX: Final = 1 << 32  # More than a driver has room for.


@dataclass(slots=True)
class Graph:
    """What a graph holds: kernels by node where the node is known, the rest by count."""

    loose: Counter[str] = field(default_factory=Counter)
    nodes: dict[int, str] = field(default_factory=dict)

    def kernels(self) -> Counter[str]:
        """How often it runs each."""
        return self.loose + Counter(self.nodes.values())

    @property
    def size(self) -> int:
        """What it takes to keep or to copy it."""
        return 1 + len(self.loose) + len(self.nodes)

    def include(self, child: "Graph") -> None:
        """All that another graph runs; of one that goes in again and again, some."""
        for name, nodes in child.kernels().items():
            self.loose[name] = min(self.loose[name] + nodes, _NODES_OF_KERNEL_MAX)

    def copy(self) -> "Graph":
        """One that holds the same, and changes by itself."""
        return Graph(self.loose.copy(), dict(self.nodes))


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an executable graph, since when, and what rows call it."""

    since_ns: int
    number: int
    graph: str  # Joins graph_kernels: one version of one executable graph.
    name: str


@dataclass(slots=True)
class Exec:
    """A graph that can be launched."""

    graph: Graph
    name: str
    versions: list[Version]  # Of its handle: those of earlier graphs come first.
    number: int = 0
    destroyed_ns: int = 0
    kernels: Counter[str] = field(default_factory=Counter)  # Of the last version.


@dataclass(slots=True)
class ProcessGraphs:
    """One process's graphs."""

    captures: dict[int, Graph] = field(default_factory=dict)
    graphs: dict[int, Graph] = field(default_factory=dict)
    execs: dict[int, Exec] = field(default_factory=dict)
    node_kernels: dict[int, str] = field(default_factory=dict)
    made: int = 0
    tenant: str = ""

    @property
    def size(self) -> int:
        """What all of them take."""
        graphs = (*self.captures.values(), *self.graphs.values())
        of_execs = sum(e.graph.size for e in self.execs.values())
        return sum(g.size for g in graphs) + of_execs + len(self.node_kernels)

    def names(self) -> set[str]:
        """Every kernel in any of them."""
        found = set(self.node_kernels.values())
        of_execs = [e.graph for e in self.execs.values()]
        for graph in (*self.captures.values(), *self.graphs.values(), *of_execs):
            found.update(graph.loose, graph.nodes.values())
        return found.union(*(e.kernels for e in self.execs.values()))

    def call(self, node: int, kernel: str) -> None:
        """The node runs this kernel."""
        self.node_kernels[node] = kernel
        while len(self.node_kernels) > _NODES_MAX:
            del self.node_kernels[next(iter(self.node_kernels))]


def replace_node(graph: Graph, node: int, before: str | None, after: str) -> bool:
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
