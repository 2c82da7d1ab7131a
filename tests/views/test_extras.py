"""What needs no extra works without one."""

import pkgutil
import subprocess
import sys

import pytest

import cotenant
from tests.serving import three_tenants

# Imports as a core install would: what only the extras bring is not there.
WITHOUT = """
import sys
for name in ("rich", "textual", "starlette", "uvicorn", "prometheus_client", "perfetto"):
    sys.modules[name] = None
from cotenant.views.cli import main
sys.exit(main(sys.argv[1:]))
"""

# Only these may need an extra.
LOOKING = ("cotenant.views.tui", "cotenant.views.web", "cotenant.views.metrics")


def test_all_but_the_screens_is_imported_without_an_extra():
    names = sorted(
        module.name
        for module in pkgutil.walk_packages(cotenant.__path__, "cotenant.")
        if not module.name.startswith(LOOKING) and not module.name.endswith("__main__")
    )
    assert "cotenant.agent.recorder.main" in names
    script = WITHOUT.partition("from")[0] + f"import importlib\nfor name in {names}:"
    done = subprocess.run(
        [sys.executable, "-c", f"{script} importlib.import_module(name)"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("sql", "SELECT count(*) AS tenants FROM containers", "--format", "csv"),
            '"tenants"\n3\n',
        ),
        (("ask", "top_kernels"), "slurm/4711"),
        (("top",), "slurm/4711"),
        (("tenants",), "slurm/4711"),
        (("record", "--help"), "cotenant record"),
        (("doctor", "--help"), "cotenant doctor"),
    ],
)
def test_a_core_install_records_and_answers(tmp_path, words, said):
    where = () if "--help" in words else ("--store", str(three_tenants(tmp_path / "store")))
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *words, *where], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert said in done.stdout


def test_a_verb_that_needs_an_extra_names_it(tmp_path):
    where = str(three_tenants(tmp_path / "store"))
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, "serve", "--as-root", "--store", where],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode != 0
    assert "cotenant[look]" in done.stderr
    assert len(done.stderr.splitlines()) == 1
