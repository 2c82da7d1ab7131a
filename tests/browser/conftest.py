"""A real Chromium, looking at a real server."""

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.lacking import lacking
from tests.serving import Served

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
PATIENCE_S = 60


@dataclass
class Tab:
    """An open page, and everything it complained about or asked for."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def run(self, script: str) -> Any:
        """Evaluate a function in the page."""
        return self.page.evaluate(script)

    def until(self, script: str, what: str = "") -> Any:
        """Wait until a function in the page gives something true, and return that."""
        deadline = time.monotonic() + PATIENCE_S
        while not (found := self._asked_for(script)):
            assert time.monotonic() < deadline, what or script
            self.page.wait_for_timeout(50)
        return found

    def _asked_for(self, script: str) -> Any:
        """As `run`; None of a page that is left meanwhile: the next one is waited for."""
        from playwright.sync_api import Error

        try:
            return self.run(script)
        except Error as error:
            if "context was destroyed" not in error.message:
                raise
            return None

    def settled(self) -> None:
        """Wait until everything on screen is the newest there is."""
        self.until("() => cotenant.timeline.painted", "nothing was painted")
        self.until("() => !cotenant.timeline.loading", "tiles are still on their way")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    if CHROMIUM is None:
        lacking("browser", "no chromium; `make setup-tests` installs it where there is a package")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium: Any) -> Iterator[Callable[..., Tab]]:
    """``visit(served, hash)``: a fresh tab on the page."""
    contexts = []

    def visit(served: Served, more: str = "", *, token: bool = True, theme: str = "light") -> Tab:
        context = chromium.new_context(
            viewport={"width": 1280, "height": 860}, color_scheme=theme, reduced_motion="reduce"
        )
        contexts.append(context)
        tab = Tab(context.new_page())
        tab.page.on("request", lambda request: tab.asked.append(request.url))
        tab.page.on("pageerror", lambda error: tab.complaints.append(str(error)))
        tab.page.on(
            "console",
            lambda said: said.type in ("error", "warning") and tab.complaints.append(said.text),
        )
        parts = [f"token={served.token}"] if token else []
        parts += [more] if more else []
        tab.page.goto(served.url + ("#" + "&".join(parts) if parts else ""))
        return tab

    yield visit
    for context in contexts:
        context.close()
