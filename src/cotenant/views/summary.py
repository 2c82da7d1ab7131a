"""What each tenant did, in a line each: the end of a recording."""

import sys
from pathlib import Path

from cotenant.query.engine.session import Session
from cotenant.query.screens.summary import summary
from cotenant.views import text
from cotenant.views.tables import Layout, table


def print_summary(store: Path, from_ns: int, *nodes: str) -> None:
    """Print the lines of the recording that began then, and on stderr what they lack."""
    with Session(store, from_ns=from_ns, nodes=nodes) as session:
        answer = summary(session)
    names = ("tenant", "container", "launches", "copied", "waited", "nccl", "most launched")
    rows = [
        [
            row["tenant"],
            row["container_id"][:12],
            row["launches"],
            text.size(row["copied_bytes"]),
            text.duration(row["waited_ns"]),
            row["nccl_calls"],
            row["most_launched"],
        ]
        for row in answer.rows()
    ]
    if rows:
        print(*table(names, rows, Layout.of_output()), sep="\n")
    else:
        print("no process called a GPU library")
    for line in text.incompleteness(answer.standing):
        print(line, file=sys.stderr)
