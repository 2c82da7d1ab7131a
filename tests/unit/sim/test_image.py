"""The root file systems of simulated tenants."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from cotenant.sim import image


def test_libraries_are_loaded_for_the_first_image_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is made before the recorder starts: later the loader would be taken for a tenant."""
    image.build_root(tmp_path / "first", "/lib/gpu")

    def started(*words: Any, **_: Any) -> None:
        raise AssertionError(words)

    monkeypatch.setattr(subprocess, "run", started)
    image.build_root(tmp_path / "second", "/usr/local/cuda/lib64")
    copied = {path.name for path in (tmp_path / "second/usr/local/cuda/lib64").iterdir()}
    assert copied == {"libcuda.so.1", "libcudart.so.12", "libcudart.so.13", "libnccl.so.2"}
    assert list((tmp_path / "second").rglob("libc.so.6"))
