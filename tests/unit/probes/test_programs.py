"""Objects that do not load, and descriptors that do not stay."""

import mmap
import os
from pathlib import Path

import pytest

from cotenant.errors import Unsupported
from cotenant.probes import programs
from cotenant.probes.attach import Method
from cotenant.probes.programs import Programs, Sizes, load_family, load_object


@pytest.fixture
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package without its objects."""
    monkeypatch.setattr(programs, "OBJECTS", tmp_path)
    monkeypatch.setattr(programs, "programs_allocate", lambda: True)


@pytest.mark.usefixtures("nothing")
def test_an_object_that_is_not_there_is_named_in_one_line() -> None:
    with pytest.raises(Unsupported, match=r"^cannot load BPF object task: [^\n]+$"):
        load_object(Programs(Method.PAIR), "task", {}, Sizes(), {})


@pytest.mark.usefixtures("nothing")
def test_of_objects_that_are_all_refused_the_last_reason_is_told() -> None:
    loaded = Programs(Method.SESSION)
    with pytest.raises(Unsupported, match="BPF object cuda_session_ctx"):
        load_family(loaded, "cuda", {}, Sizes(), {})
    assert loaded.suffix is None
    loaded.suffix = "_session"
    with pytest.raises(Unsupported, match="BPF object cuda_session:"):
        load_family(loaded, "cuda", {}, Sizes(), {})


def test_rings_have_sizes_that_the_kernel_takes() -> None:
    sizes = (programs.names_ring_bytes(), programs.unread_ring_bytes())
    for size in (Sizes().events_bytes, Sizes().facts_bytes, *sizes):
        assert size % mmap.PAGESIZE == 0
        assert size & (size - 1) == 0


def test_descriptors_are_closed_once() -> None:
    loaded = Programs(Method.PAIR, programs={"a": os.dup(0)}, maps={"m": os.dup(0)})
    held = [*loaded.programs.values(), *loaded.maps.values()]
    loaded.close()
    assert not any(Path(f"/proc/self/fd/{fd}").exists() for fd in held)
    loaded.close()
