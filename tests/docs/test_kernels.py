"""docs/kernels.md is what the kept results of `make kernels` say, and nothing is wrong in it."""

from vm import report


def test_the_page_is_generated_from_the_results():
    assert report.PAGE.read_text() == report.page()


def test_no_result_is_wrong():
    assert "**wrong**" not in report.page()
