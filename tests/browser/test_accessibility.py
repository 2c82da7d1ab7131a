"""axe-core finds no serious fault, whatever the page shows and however it is shown."""

import pytest

from cotenant.store.writer import StoreWriter
from cotenant.views.cli import main
from tests.browser.axe import THEMES, faults, faults_at_any_width, faults_in_any_theme
from tests.serving import serving
from tests.virtual.hosts import Growing, forty_tenants
from tests.virtual.scenarios import noisy_neighbour


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    return noisy_neighbour(tmp_path_factory.mktemp("noisy") / "store", seed=3).root


@pytest.fixture
def live(noisy, tmp_path):
    growing = Growing(noisy, tmp_path / "live", 18)
    yield growing.root
    growing.close()


@pytest.fixture
def empty(tmp_path):
    with StoreWriter(tmp_path / "empty", node="n", boot_id="b") as writer:
        return writer.root


@pytest.fixture
def crowd(tmp_path):
    return forty_tenants(tmp_path / "crowd")


@pytest.mark.parametrize("state", ["noisy", "live", "crowd", "empty"])
def test_the_page_has_no_serious_fault(request, visit, state):
    with serving(request.getfixturevalue(state)) as served:
        tab = visit(served)
        if state == "empty":
            tab.until("() => !document.querySelector('#notice').hidden")
        else:
            tab.settled()
            tab.page.locator("#findings .finding").first.wait_for(timeout=60_000)
            tab.page.locator(".matrix").wait_for(timeout=60_000)
            tab.page.click("#fold")
        assert faults_in_any_theme(tab.page) == []


def test_a_fault_would_be_found(chromium):
    page = chromium.new_page()
    page.set_content("<html lang=en><title>a</title><main><p style='color: #ccc'>faint</p></main>")
    assert [rule for rule, *_ in faults(page)] == ["color-contrast"]
    page.close()


def test_the_report_has_no_serious_fault(chromium, noisy, tmp_path):
    output = tmp_path / "report.html"
    assert main(["export", "html", "--output", str(output), "--store", str(noisy)]) == 0
    found = []
    for theme in THEMES:
        context = chromium.new_context(color_scheme=theme)
        page = context.new_page()
        page.goto(output.as_uri())
        found += [(theme, *fault) for fault in faults_at_any_width(page)]
        context.close()
    assert found == []
