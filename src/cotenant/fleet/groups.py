"""Which nodes belong together: those that share a communicator, directly or through others."""

from collections.abc import Iterable, Mapping


def together(communicators: Mapping[str, Iterable[int]]) -> list[tuple[str, ...]]:
    """The nodes in groups, by the communicators that each has ranks of."""
    first: dict[int, str] = {}  # The node through which a communicator is known.
    above = {node: node for node in communicators}

    def top(node: str) -> str:
        while above[node] != node:
            above[node] = above[above[node]]
            node = above[node]
        return node

    for node, own in communicators.items():
        for communicator in own:
            above[top(node)] = top(first.setdefault(communicator, node))
    groups: dict[str, list[str]] = {}
    for node in sorted(above):
        groups.setdefault(top(node), []).append(node)
    return [tuple(group) for group in groups.values()]
