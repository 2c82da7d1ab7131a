"""What the kernel says of a program that it refuses, in one line."""

from pathlib import Path

import pytest

from cotenant.errors import Unsupported
from cotenant.probes import programs
from cotenant.probes.attach import Method
from cotenant.probes.programs import DEBUG, Programs, Sizes, load_object
from tests.kernel.programs import compile_bpf

SOURCE = Path(__file__).with_name("refused.bpf.c")
SMALL = Sizes(events_bytes=4096, facts_bytes=4096)


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("objects") / "refused.bpf.o"
    compile_bpf(SOURCE, target)
    return target.parent


def why(refused: Path, program: str, monkeypatch: pytest.MonkeyPatch) -> str:
    programs.programs_allocate()
    monkeypatch.setattr(programs, "OBJECTS", refused)
    with pytest.raises(Unsupported) as caught:
        load_object(Programs(Method.PAIR), "refused", {program: -1}, SMALL, {})
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_program_line_and_reason_are_told(refused: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = why(refused, "reads_too_far", monkeypatch)
    assert text.startswith("cannot load BPF program reads_too_far: ")
    assert "unbounded" in text
    assert "return value ? value[ctx->di] : 0;" in text


def test_a_field_that_the_kernel_lacks(refused: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = why(refused, "reads_a_missing_field", monkeypatch)
    assert text.startswith(
        "cannot load BPF program reads_a_missing_field: this kernel lacks a field that it reads"
    )


def test_a_hook_that_the_kernel_lacks(refused: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = why(refused, "has_no_hook", monkeypatch)
    assert text == "cannot load BPF object refused: this kernel has no no_such_tracepoint"


def test_debug_shows_all_that_was_said(
    refused: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    why(refused, "reads_too_far", monkeypatch)
    assert capsys.readouterr().err == ""
    monkeypatch.setenv(DEBUG, "1")
    why(refused, "reads_too_far", monkeypatch)
    said = capsys.readouterr().err
    assert "-- BEGIN PROG LOAD LOG --" in said
    assert "processed" in said
