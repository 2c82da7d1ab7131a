import os
import subprocess
import sys

import pytest

SKIPPED = """
import pytest
def test_of_a_kernel():
    pytest.skip("no multi here: EINVAL")
def test_of_a_tool():
    pytest.skip("no compiler")
@pytest.mark.skipif(True, reason="no network")
def test_of_a_mark():
    pass
"""


@pytest.mark.parametrize(
    ("skips", "counts"), [("", "3 skipped"), ("listed", "1 failed, 1 skipped, 1 error")]
)
def test_only_listed_skips_pass(tmp_path, skips, counts):
    (tmp_path / "test_skipped.py").write_text(SKIPPED)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", tmp_path],
        env={**os.environ, "COTENANT_SKIPS": skips, "PYTHONPATH": "."},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert counts in done.stdout, done.stdout + done.stderr
