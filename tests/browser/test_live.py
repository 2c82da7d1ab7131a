"""A recording that goes on while somebody looks at it."""

from tests.serving import serving
from tests.virtual.hosts import Growing
from tests.virtual.scenarios import noisy_neighbour

PATIENCE_MS = 120_000


def test_findings_come_by_themselves_as_the_recording_goes_on(tmp_path, visit):
    noisy = noisy_neighbour(tmp_path / "noisy", seed=3).root
    # In the first moments there is too little to tell anything.
    growing = Growing(noisy, tmp_path / "live", 0.2)
    try:
        with serving(growing.root) as served:
            tab = visit(served)
            said = tab.page.locator("#findings")
            said.get_by_text("Looking").wait_for(state="hidden", timeout=PATIENCE_MS)
            assert said.locator(".finding").count() == 0
            growing.grow(12)
            found = tab.page.locator("#findings .finding", has_text="ml/serve slows ml/train")
            found.wait_for(timeout=PATIENCE_MS)
            tab.page.locator(".matrix td.evidence").wait_for(timeout=PATIENCE_MS)
    finally:
        growing.close()
