"""What Python knows of the BPF programs' numbers comes out of the built objects."""

import re
from pathlib import Path

import pytest

from cotenant.schema.events import RECORDS
from cotenant.schema.layouts import FACT
from tests.generation import OBJECTS, ROOT, compiled, copied, edit, generate

SCHEMA = ROOT / "src/cotenant/schema"
MODULES = ("constants.py", "events.py", "layouts.py")


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("generated")
    done = generate(into, *sorted(OBJECTS.glob("*.bpf.o")))
    assert done.returncode == 0, done.stderr
    return into


@pytest.mark.parametrize("module", MODULES)
def test_what_is_committed_is_what_the_objects_say(generated: Path, module: str) -> None:
    assert (SCHEMA / module).read_text() == (generated / module).read_text()


def changed(place: Path, source: str, *, header: str, old: str, new: str) -> Path:
    """One program of ours, built after a change of one line in a header."""
    bpf = copied(place)
    edit(bpf / header, old, new)
    return compiled(bpf, source)


@pytest.mark.parametrize(
    ("source", "header", "old", "new", "module", "line"),
    [
        ("cuda/names.bpf.c", "common/call.h", "CALL_EVENT = 4096", "CALL_EVENT = 8192",
         "constants.py", r"    EVENT = 8192"),
        ("cuda/names.bpf.c", "common/call.h", "SLOT_END = 25", "SLOT_END = 26",
         "constants.py", r"SLOT_END: Final = 26"),
        ("kernel/task.bpf.c", "common/total.h", "KIND_SHIFT = 8", "KIND_SHIFT = 9",
         "constants.py", r"KERNEL_FUNCTION_KIND_SHIFT: Final = 9"),
        ("kernel/task.bpf.c", "common/probe.bpf.h", "CONTROLLER_pids = 1", "CONTROLLER_pids = 7",
         "events.py", r"ENUMS.*'v1_controller': \{0: 'memory', 7: 'pids'"),
        ("kernel/task.bpf.c", "common/fact.h", "FACT_NAME = 1,", "FACT_NAME = 31,",
         "events.py", r"ENUMS.*'fact_kind': \{31: 'NAME'"),
        ("kernel/task.bpf.c", "common/total.h", "	__u64 shed;\n", "	__u64 shed, more;\n",
         "constants.py", r'    "totals": \(24, 320\),'),
        ("kernel/io.bpf.c", "common/event.h", "EVENT_IO = 4", "EVENT_IO = 7",
         "events.py", r"RECORDS: Final = \{7: IO_RECORD\}"),
        ("common/trial.bpf.c", "common/trial.bpf.c", "__u64 frame;", "__u64 first, frame;",
         "layouts.py", r"""        "names": \['first', 'frame', 'task'\],"""),
    ],
    ids=lambda value: value if "=" in value or "__u64" in value else "",
)  # fmt: skip
def test_another_value_in_c_is_another_value_in_python(
    tmp_path: Path, source: str, header: str, old: str, new: str, module: str, line: str
) -> None:
    built = changed(tmp_path, source, header=header, old=old, new=new)
    done = generate(tmp_path / "schema", built)
    assert done.returncode == 0, done.stderr
    assert re.search(f"^{line}", (tmp_path / "schema" / module).read_text(), re.MULTILINE)


def test_objects_that_differ_about_a_number_are_refused(tmp_path: Path) -> None:
    built = changed(
        tmp_path,
        "cuda/names.bpf.c",
        header="common/call.h",
        old="SLOT_END = 25",
        new="SLOT_END = 26",
    )
    done = generate(tmp_path / "schema", OBJECTS / "names.bpf.o", built)
    assert done.returncode == 1
    assert done.stderr == (
        f"{built}: call_number differs from other objects'; build them all again\n"
    )


def test_a_kind_is_as_wide_as_the_drain_reads_it() -> None:
    assert {record.field("kind").type for record in RECORDS.values()} == {"<u2"}
    assert FACT["kind"].str == "<u2"
