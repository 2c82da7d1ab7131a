"""How soon the page shows a million events, and how smoothly it moves through them.

    python bench/page.py [--rows 1000000] [--seconds 6]

Rows come from ``rows.py``, sealed and compacted as a recording would be. Chromium opens the page
of `cotenant serve` on them; the first paint counts from the navigation, with the server fresh and
its store not yet read. Then the view is dragged, zoomed in step by step and dragged again, while
the page measures the time between its frames.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from apart import parsed
from playwright.sync_api import sync_playwright
from rows import START_NS, cgroup_ids, cuda_rows

from cotenant.store.compaction import Compactor
from cotenant.store.writer import StoreWriter

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.serving import Served, serving

SEAL_ROWS = 100_000
PATIENCE_S = 120
PANELS = ("tables", "queued", "findings", "interference")
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
WATCH = """() => {
  globalThis.between = [];
  let last = performance.now();
  const frame = (now) => {
    globalThis.between.push(now - last);
    last = now;
    globalThis.watching = requestAnimationFrame(frame);
  };
  globalThis.watching = requestAnimationFrame((now) => { last = now; frame(now); });
}"""


def fill(root: Path, rows: int) -> None:
    who = {"cgroup_id": cgroup_ids(), "tenant": ["ml/train", "ml/serve", "noisy"]}
    who |= {"container_id": who["tenant"], "node": ["bench"] * 3, "boot_id": ["bench"] * 3}
    with StoreWriter(root, node="bench", boot_id="bench") as store:
        store.replace("containers", pa.table(who))
        made, start_ns = 0, START_NS
        while made < rows:
            batch = cuda_rows(min(SEAL_ROWS, rows - made), seed=made, start_ns=start_ns)
            store.append("cuda_events", batch)
            store.seal(start_ns)
            made += batch.num_rows
            start_ns = batch["timestamp_ns"][-1].as_py()
        compactor = Compactor(store, share=1e9)
        while compactor.step(start_ns):
            pass


def first_paint(page: Any, served: Served) -> float:
    """Milliseconds from the navigation to the first frame with events in it."""
    page.goto(f"{served.url}#token={served.token}")
    return float(until(page, lambda: page.evaluate("() => globalThis.cotenant?.timeline.painted")))


def until(page: Any, found: Callable[[], Any]) -> Any:
    """Wait for something true."""
    deadline = time.monotonic() + PATIENCE_S
    while not (value := found()):
        if time.monotonic() > deadline:
            raise SystemExit(f"the page was not there after {PATIENCE_S} s")
        page.wait_for_timeout(20)
    return value


def opened(root: Path) -> dict[str, Any]:
    """When the page of a fresh server paints first, and when each panel has its answer."""
    with serving(root) as served, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        answered: dict[str, float] = {}
        began = time.monotonic()

        def note(request: Any) -> None:
            name = request.url.partition("/api/")[2].partition("?")[0]
            response = request.response()
            if name in PANELS and response.status == 200:
                answered.setdefault(name, time.monotonic() - began)

        page.on("requestfinished", note)
        painted = first_paint(page, served)
        until(page, lambda: len(answered) == len(PANELS))
        browser.close()
    return {
        "first_paint_s": round(painted / 1000, 3),
        "panels_s": round(max(answered.values()), 3),
        "panels": {name: round(at, 3) for name, at in answered.items()},
    }


def pan(page: Any, seconds: float) -> list[float]:
    """Drag to and fro at four zooms; the time between frames, in ms."""
    found: list[float] = []
    box = page.locator("#lanes").bounding_box()
    left, right, y = box["x"] + 260, box["x"] + box["width"] - 60, box["y"] + 200
    for zoom in (1.0, 0.2, 0.05, 0.005):
        page.evaluate(f"() => cotenant.view.zoom({zoom}, cotenant.view.start + 1e8)")
        page.wait_for_timeout(400)
        page.evaluate(WATCH)
        ends = time.monotonic() + seconds / 4
        page.mouse.move(right, y)
        while time.monotonic() < ends:
            page.mouse.down()
            page.mouse.move(left, y, steps=25)
            page.mouse.up()
            page.mouse.down()
            page.mouse.move(right, y, steps=25)
            page.mouse.up()
        page.evaluate("() => cancelAnimationFrame(globalThis.watching)")
        found += page.evaluate("() => globalThis.between.slice(2)")
    return found


def measure(root: Path, seconds: float) -> dict[str, Any]:
    with serving(root) as served, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        painted = first_paint(page, served)
        page.wait_for_timeout(3000)
        between = pan(page, seconds)
        drawn = page.evaluate("() => cotenant.timeline.frames")
        browser.close()
    return {
        "first_paint_ms": round(painted),
        "frames": len(between),
        "frame_ms_median": round(statistics.median(between), 1),
        "frame_ms_p99": round(statistics.quantiles(between, n=100)[98], 1),
        "frame_ms_worst": round(max(between), 1),
        "drawing_ms_median": round(statistics.median(drawn), 1),
        "drawing_ms_worst": round(max(drawn), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=6.0)
    args = parsed(parser, lambda args: opened(args.store))
    folder = Path(tempfile.mkdtemp(prefix="cotenant-bench-"))
    try:
        fill(folder / "store", args.rows)
        result: dict[str, Any] = {"cpus": os.cpu_count(), "kernel": platform.release()}
        result |= {"rows": args.rows, **measure(folder / "store", args.seconds)}
        print(json.dumps(result, indent=2))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
