"""NVIDIA's compiler, from its packages on PyPI."""

import subprocess
import sysconfig
import tempfile
from pathlib import Path

NVIDIA = Path(sysconfig.get_paths()["purelib"]) / "nvidia" / "cu13"


def build_with_nvcc(program: Path, source: Path, *flags: str) -> Path:
    """Compile a program that is linked to the shared runtime, as most are."""
    with tempfile.TemporaryDirectory() as folder:
        # The packages have the library without the name that a linker looks for.
        (Path(folder) / "libcudart.so").symlink_to(NVIDIA / "lib" / "libcudart.so.13")
        words = [NVIDIA / "bin" / "nvcc", "-cudart", "shared", f"-L{folder}", *flags]
        subprocess.run([*words, "-o", program, source], check=True, timeout=240, cwd=folder)
    return program
