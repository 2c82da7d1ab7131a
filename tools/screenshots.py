"""Pictures for the documentation: the page and `top`, of a store that is being recorded.

sudo .venv/bin/cotenant demo --store /tmp/d --for 60s &
.venv/bin/python tools/screenshots.py /tmp/d docs/images
"""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from cotenant.views.tui.app import Top
from cotenant.views.tui.sample import SampleSource

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
TENANTS = {"train", "serve", "noisy"}
SIZE: Any = {"width": 1440, "height": 860}
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


def page_shots(address: str, folder: Path) -> None:
    """The timeline in light and dark, and one launch close by."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for theme in ("light", "dark"):
            page = browser.new_page(viewport=SIZE, color_scheme=theme)
            page.goto(address)
            settle(page, 1)
            page.evaluate(OTHERS_OFF, sorted(TENANTS))
            page.locator(".matrix").wait_for(timeout=120_000)
            settle(page, 3)
            page.screenshot(path=folder / f"page-{theme}.png")
            if theme == "dark":
                page.evaluate(LAUNCH)
                settle(page, 2)
                page.screenshot(path=folder / "launch.png")
        browser.close()


async def top_shot(store: Path, file: Path) -> None:
    """`top` in 80 columns."""
    app = Top(SampleSource(store), every_s=3600)
    async with app.run_test(size=(80, 14)) as pilot:
        await app.workers.wait_for_complete()
        await pilot.pause()
        picture = app.export_screenshot(title="cotenant top")
        # Fonts of other hosts: a picture in the documentation fetches nothing.
        file.write_text(re.sub(r"@font-face\s*{[^}]*}", "", picture))


def main() -> None:
    """All of them."""
    store, folder = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(top_shot(store, folder / "top.svg"))
    command = [sys.executable, "-m", "cotenant", "serve", "--store", str(store), "--port", "0"]
    command += ["--as-root"] if os.geteuid() == 0 else []
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        line = server.stdout.readline() if server.stdout else ""
        time.sleep(1)
        page_shots(line.split(" at ")[1].strip(), folder)
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
