"""How long all named questions and `explain` take on two stores, over the first promised query.

    python bench/scale.py [--rows 10000000] [--larger 100000000] [--mixes 50000] [--stores DIR]

Each store is made of ring records by the agent's own drain (``recorded.py``); both are of the same
duration, processes, kernels and mixes, so that they differ in how often something was launched, and
in nothing else. Each question runs in a process of its own, without a window; its peak memory is
that of the process. A ratio is of processor times in one run. Then Chromium opens the page of the
larger one. With a directory for the stores they stay there, and are not made anew.
"""

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from apart import asked, parsed
from recorded import MIXES, fill

from cotenant.query.engine.session import Session
from cotenant.query.findings.explain import explain
from cotenant.query.questions.loader import find, questions
from cotenant.query.questions.promises import promise

PROMISE: Final = "promised"
EXPLAIN: Final = "explain"  # Not a question, and may take more.
PAGE: Final = Path(__file__).with_name("page.py")
RUNS: Final = 3  # The best of so many is the promised query's time.


def ask(root: Path, name: str) -> dict[str, Any]:
    """One question, here and now."""
    began, cpu = time.monotonic(), time.process_time()
    with Session(root) as session:
        if name == EXPLAIN:
            rows = len(explain(session).findings)
        else:
            sql = promise("kernels") if name == PROMISE else find(name).render()
            rows = session.ask(sql).table.num_rows
    peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "rows": rows, "wall_s": time.monotonic() - began, "cpu_s": time.process_time() - cpu,
        "peak_mb": peak_kb / 1024,
    }  # fmt: skip


def measured(root: Path) -> dict[str, Any]:
    """Every question on one store, as a ratio to the first promised query."""
    first = min((asked(__file__, root, PROMISE) for _ in range(RUNS)), key=lambda run: run["cpu_s"])
    found = {PROMISE: first}
    for name in (*sorted(questions()), EXPLAIN):
        found[name] = asked(__file__, root, name)
        if "cpu_s" in found[name]:
            found[name]["over_promised"] = found[name]["cpu_s"] / first["cpu_s"]
        print(f"{name}: {found[name]}", file=sys.stderr, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--larger", type=int, default=100_000_000)
    parser.add_argument("--mixes", type=int, default=MIXES)
    parser.add_argument("--stores", type=Path, help="where the stores are, or are made and kept")
    args = parsed(parser, lambda args: ask(args.store, args.ask))
    with tempfile.TemporaryDirectory(prefix="cotenant-scale-") as place:
        stores = args.stores or Path(place)
        result = []
        for rows in (args.rows, args.larger):
            store = stores / str(rows)
            if not store.exists():
                fill(store, rows, args.larger / rows, args.mixes)
            result.append({"bench": "scale", "rows": rows, "questions": measured(store)})
        result[-1]["page"] = asked(str(PAGE), store, "opened")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
