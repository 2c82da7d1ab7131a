"""Pictures for the documentation: the page, `top` and the report, of a store; and of many nodes.

sudo .venv/bin/cotenant demo --store /tmp/d --for 60s &
.venv/bin/python -m tools.screenshots /tmp/d docs/images [PICTURE ...]
"""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from bench.fleet import Planted, Recording, fill
from cotenant.views.tui.app import Top
from cotenant.views.tui.sample import SampleSource

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
TENANTS = {"train", "serve", "noisy"}
SIZE: Any = {"width": 1440, "height": 860}
PHONE: Any = {"width": 390, "height": 844}
NODES = 12
OTHERS_OFF = """(wanted) => {
  for (const { name } of cotenant.status.tenants) {
    if (!wanted.includes(name)) cotenant.view.off.add(name);
  }
  cotenant.view.changed("tenants");
}"""
LAUNCH = """async () => {
  const { view, timeline } = cotenant;
  view.follow = false;
  const wait = async () => {
    do await new Promise((done) => setTimeout(done, 500)); while (timeline.loading);
  };
  const lane = cotenant.status.lanes.find((one) => one.tenant === "train" && one.family === "nccl");
  view.show((view.first + view.last) / 2, 1e9);
  await wait();
  const slices = timeline.parts.map((part) => part.tile?.lanes.get(lane.id)?.slices);
  const at = slices.filter(Boolean).flatMap((one) => [...one.at]).find((time) => time > view.start);
  view.show(at - 6e5, 1.6e6);
  await wait();
  const mark = timeline.neighbour(1);
  if (mark) await cotenant.details.click(mark);
}"""


def settle(page: Any, seconds: float) -> None:
    """Wait until the timeline is drawn, and some more for the panels."""
    deadline = time.monotonic() + 60
    while not page.evaluate("() => globalThis.cotenant && !cotenant.timeline.loading"):
        if time.monotonic() > deadline:
            raise SystemExit("the page shows nothing")
        page.wait_for_timeout(100)
    page.wait_for_timeout(round(1000 * seconds))


@contextmanager
def chromium() -> Iterator[Any]:
    """The browser that pictures are taken with."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def page_shots(store: Path, folder: Path) -> None:
    """The timeline in light and dark, one launch close by, and the first screen of a phone."""
    with served(store) as address, chromium() as browser:
        for theme in ("light", "dark"):
            page = browser.new_page(viewport=SIZE, color_scheme=theme)
            opened(page, address)
            page.screenshot(path=folder / f"page-{theme}.png")
            if theme == "dark":
                page.evaluate(LAUNCH)
                settle(page, 2)
                page.screenshot(path=folder / "launch.png")
        page = browser.new_page(viewport=PHONE, device_scale_factor=1.5)
        opened(page, address)
        page.screenshot(path=folder / "page-phone.png")


def opened(page: Any, address: str) -> None:
    """The page with the tenants of the demo alone, once it knows who slows whom."""
    page.goto(address)
    settle(page, 1)
    page.evaluate(OTHERS_OFF, sorted(TENANTS))
    page.locator(".matrix").wait_for(timeout=120_000)
    settle(page, 3)


def fleet_shot(store: Path, folder: Path) -> None:
    """The overview of nodes that were made of this one; the GPU of one of them is slow."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "fleet"
        fill(Recording(store), root, NODES, Planted(slow=frozenset({NODES // 2})))
        with served(root) as address, chromium() as browser:
            page = browser.new_page(viewport=SIZE)
            page.goto(address)
            page.locator("#findings .finding").first.wait_for(timeout=300_000)
            page.locator("#fleet .bar-cell").first.wait_for(timeout=300_000)
            page.wait_for_timeout(1000)
            page.screenshot(path=folder / "fleet.png")


def report_shot(store: Path, folder: Path) -> None:
    """The report in one file."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "report.html"
        command = ["export", "html", "--output", str(file), "--store", str(store)]
        subprocess.run([sys.executable, "-m", "cotenant", *command], check=True)
        with chromium() as browser:
            page = browser.new_page(viewport=SIZE)
            page.goto(file.as_uri())
            page.screenshot(path=folder / "report.png")


def top_shot(store: Path, folder: Path) -> None:
    """`top` in 80 columns."""
    asyncio.run(_top(store, folder / "top.svg"))


async def _top(store: Path, file: Path) -> None:
    app = Top(SampleSource(store), every_s=3600)
    async with app.run_test(size=(80, 14)) as pilot:
        await app.workers.wait_for_complete()
        await pilot.pause()
        picture = app.export_screenshot(title="cotenant top")
        # Fonts of other hosts: a picture in the documentation fetches nothing.
        file.write_text(re.sub(r"@font-face\s*{[^}]*}", "", picture))


@contextmanager
def served(store: Path) -> Iterator[str]:
    """The address of the page of a store."""
    command = [sys.executable, "-m", "cotenant", "serve", "--store", str(store), "--port", "0"]
    command += ["--as-root"] if os.geteuid() == 0 else []
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        line = server.stdout.readline() if server.stdout else ""
        time.sleep(1)
        yield line.split(" at ")[1].strip()
    finally:
        server.terminate()
        server.wait()


PICTURES = {"top": top_shot, "page": page_shots, "report": report_shot, "fleet": fleet_shot}


def main() -> None:
    """All of them, or those that are named."""
    store, folder = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[3:] or PICTURES:
        PICTURES[name](store, folder)


if __name__ == "__main__":
    main()
