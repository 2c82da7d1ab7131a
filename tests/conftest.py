import os
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.lacking import unlisted

# How long one example takes depends on what else this machine does.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# The books of each virtual store of one test in so many must balance; of every test with 1.
ONE_IN = int(os.environ.get("COTENANT_BALANCE", "12"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that is skipped for a reason that tests/lacking.py does not list has failed."""
    report = yield
    if os.environ.get("COTENANT_SKIPS") == "listed" and (reason := unlisted(report)):
        report.outcome = "failed"
        report.longrepr = f"skipped for a reason that tests/lacking.py does not list: {reason}"
    return report


@pytest.fixture(autouse=True)
def balanced_books(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Equations that need no truth hold of what a test writes; see tests/books."""
    left_out = request.node.get_closest_marker("unbalanced") is not None
    if left_out or zlib.crc32(request.node.name.encode()) % ONE_IN:
        yield
        return
    from tests.virtual.store import VirtualStore

    written: list[Path] = []
    write = VirtualStore.write

    def noted(store: VirtualStore) -> Path:
        root: Path = write(store)
        written.append(root)
        return root

    monkeypatch.setattr(VirtualStore, "write", noted)
    yield
    if written:
        from tests.books.equations import of_one_answer

        assert of_one_answer(written[0]) == []
