"""What a question about a day of many nodes takes, in one process.

    python bench/fleet_day.py [--nodes 1000] [--tenants 3]

The day of one node is recorded and shipped as in ``ship.py``: rollups by the minute, folded into
one object per table. ``fleet.py`` gives it to so many nodes, each with ids and tenants of its own.
Each question runs in a process of its own.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from apart import asked, parsed
from fleet import Recording, fill
from ship import a_day

from cotenant.query.engine.session import Session
from cotenant.query.questions.loader import find
from cotenant.store.manifest import current_segments

OPENING: Final = "opening"
QUESTIONS: Final = (OPENING, "top_kernels", "gpu_use")


def ask(root: Path, name: str) -> dict[str, Any]:
    """One question, here and now."""
    sql = "select count(*) from containers" if name == OPENING else find(name).render()
    began, cpu = time.monotonic(), time.process_time()
    with Session(root) as session:
        rows = session.ask(sql).table.num_rows
    spent = {"wall_s": time.monotonic() - began, "cpu_s": time.process_time() - cpu}
    return {"rows": rows} | {key: round(value, 2) for key, value in spent.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--tenants", type=int, default=3)
    args = parsed(parser, lambda args: ask(args.store, args.ask))
    place = Path(tempfile.mkdtemp(prefix="cotenant-day-"))
    try:
        a_day(place, args.tenants)
        fill(Recording(place / "far"), place / "store", args.nodes)
        sizes = current_segments(place / "store")
        result: dict[str, Any] = {"nodes": args.nodes, "tenants_per_node": args.tenants}
        result |= {"rows": sum(s.rows for s in sizes), "mb": sum(s.bytes for s in sizes) / 1e6}
        for name in QUESTIONS:
            result[name] = asked(__file__, place / "store", name)
            print(f"{name}: {result[name]}", file=sys.stderr, flush=True)
        print(json.dumps(result, indent=2))
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
