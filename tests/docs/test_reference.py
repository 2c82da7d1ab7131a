"""The reference is what the tables and commands say of themselves, and the docs lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNTRACKED = {".venv", "build", "dist"}
PAGES = sorted(path for path in ROOT.glob("**/*.md") if not UNTRACKED & set(path.parts))


def test_the_reference_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "tools/gen_reference.py", "--check"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_page_is_in_an_index() -> None:
    indexes = [ROOT / "docs/README.md", ROOT / "docs/questions/README.md"]
    linked = {
        (index.parent / link).resolve()
        for index in indexes
        for link in re.findall(r"\]\(([^)#\s]+\.md)", index.read_text())
    }
    pages = {page.resolve() for page in (ROOT / "docs").glob("**/*.md")}
    assert sorted(pages - linked - {indexes[0].resolve()}) == []


def test_both_promised_queries_are_in_the_design_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    for words in ("FROM cuda_events e", "FROM nccl_events e", "JOIN containers  c"):
        assert words in readme
