"""The store as a whole and node by node: a reader for each that somebody looks at."""

import threading
from collections import OrderedDict
from typing import Final

from cotenant.errors import QuestionError
from cotenant.views.web.reader import Reader

_KEPT: Final = 4  # Readers of single nodes: each holds an open store.


class NodeReaders:
    """Readers by node, made when asked for; safe to use from threads."""

    def __init__(self, whole: Reader) -> None:
        self.whole = whole
        self._single: OrderedDict[str, Reader] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, node: str | None) -> Reader:
        """The reader of this node, or of all; QuestionError if there is no such node."""
        if node is None:
            return self.whole
        if self.whole.tenant is not None:
            raise QuestionError("this page is of one tenant, on all its nodes")
        with self._lock:
            if node not in self._single and node not in self.whole.nodes():
                raise QuestionError(f"there is no node {node}")
            found = self._single.pop(node, None)
            reader = found or Reader(self.whole.store, self.whole.tenant, (node,))
            self._single[node] = reader
            while len(self._single) > _KEPT:
                self._single.popitem(last=False)
            return reader
