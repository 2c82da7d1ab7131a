"""What a wheel needs beside Python: BPF objects, the native module and the stand-in libraries.

They are built by the makefiles of bpf/, native/ and sim/. The libraries that the native module
loads go into the wheel beside it, unchanged: it runs where none of them is installed.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent.absolute()
OBJECTS = Path("cotenant/_native/objects")
MODULE = Path("cotenant/_native/_drain.abi3.so")
LIBRARIES = Path("cotenant/sim/libraries")
TERMS = Path("cotenant/_native/licenses")
# libelf is of whoever accepts the LGPL, version 3, which refers to the GPL.
LICENSES = (Path("/usr/share/common-licenses/LGPL-3"), Path("/usr/share/common-licenses/GPL-3"))
PROGRAMS = ("workload", "client")
TOOLS = ("make", "cc", "ld", "objcopy", "awk", os.environ.get("CLANG", "clang-19"),
         os.environ.get("STRIP", "llvm-strip-19"))  # fmt: skip
HEADERS = ("bpf/libbpf.h", "libelf.h", "zlib.h", "linux/bpf.h", "Python.h")
PACKAGES = "make gcc binutils clang-19 llvm-19 libbpf-dev libelf-dev zlib1g-dev python3-dev"
# Every Linux has these.
SYSTEM = re.compile(r"(linux-vdso|ld-linux-x86-64|libc|libm|libdl|libpthread|librt)\.so")


def refuse(why: str) -> None:
    """End with one line."""
    sys.exit(f"cotenant: no wheel can be built here: {why}")


def has_header(header: str) -> bool:
    """Whether the compiler finds it."""
    include = subprocess.run(
        [sys.executable, "-c", "import sysconfig; print(sysconfig.get_path('include'))"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    line = ["cc", "-E", f"-I{include}", "-include", header, "-x", "c", os.devnull]
    return subprocess.run(line, capture_output=True, check=False).returncode == 0


def check_host() -> None:
    """Refuse what would end in a wheel that lacks something."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        refuse(f"it is for Linux on x86-64, this is {sys.platform} on {platform.machine()}")
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    missing += [] if missing else [header for header in HEADERS if not has_header(header)]
    if missing:
        refuse(f"{', '.join(missing)} not found; on Debian, apt-get install {PACKAGES}")


def make(folder: str) -> None:
    """Build one folder; its own words only if it fails."""
    line = ["make", "--no-print-directory", "--silent", "-C", str(ROOT / folder),
            f"PYTHON={sys.executable}"]  # fmt: skip
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [text for text in done.stderr.splitlines() if "error" in text]
        refuse(f"make -C {folder} failed: {(said or done.stderr.splitlines() or ['?'])[0]}")


def bundled(module: Path) -> list[Path]:
    """The libraries that the module loads, but for those that every Linux has."""
    listed = subprocess.run(["ldd", module], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^\s*(\S+) => (/\S+)", listed, re.MULTILINE)
    return [Path(path) for name, path in found if not SYSTEM.match(name)]


def terms(library: Path) -> list[Path]:
    """Under which terms Debian has a library from its authors; none where there is no dpkg."""
    if shutil.which("dpkg-query") is None:
        return []
    owner = subprocess.run(["dpkg-query", "--search", f"*/{library.name}"], capture_output=True,
                           text=True, check=False).stdout.partition(":")[0]  # fmt: skip
    stated = Path("/usr/share/doc") / owner / "copyright"
    return [stated] if owner and stated.is_file() else []


def put(source: Path, target: Path, *, strip: bool = False) -> None:
    """A copy whose mode depends on nobody's umask, without debug sections if so asked."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755 if target.name in PROGRAMS else 0o644)
    if strip:
        subprocess.run(["strip", "--strip-debug", target], check=True)


class Build(build):
    """From nothing: a file that was removed is not found in a wheel again."""

    def run(self) -> None:
        """Build everything."""
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


class BuildNative(build_ext):
    """Builds what is not Python, and puts it where the wheel is packed from."""

    def run(self) -> None:
        """Nothing for an editable install: `make build` puts it into the tree itself."""
        if self.editable_mode:
            return
        for folder in ("bpf", "native", "sim"):
            make(folder)
        tree = Path(self.build_lib).absolute()
        for built in sorted((ROOT / "src" / OBJECTS).glob("*.bpf.o")):
            put(built, tree / OBJECTS / built.name)
        put(ROOT / "src" / MODULE, tree / MODULE, strip=True)
        for library in bundled(ROOT / "src" / MODULE):
            put(library, tree / MODULE.parent / library.name)
            for text in terms(library):
                put(text, tree / TERMS / f"{library.name}.copyright")
        for text in filter(Path.is_file, LICENSES):
            put(text, tree / TERMS / text.name)
        sim = ROOT / "sim" / "build"
        for built in (*sim.glob("lib*.so.*"), *sim.glob("framed/*"), *map(sim.joinpath, PROGRAMS)):
            put(built, tree / LIBRARIES / built.relative_to(sim), strip=True)


class PlatformDistribution(Distribution):
    """Of one platform, though setuptools compiles nothing itself."""

    def has_ext_modules(self) -> bool:
        """Makes the wheel one for a platform."""
        return True


if "bdist_wheel" in sys.argv:
    check_host()  # Before anything else is said.
setup(
    cmdclass={"build": Build, "build_ext": BuildNative},
    distclass=PlatformDistribution,
    options={
        # One module for every Python from 3.11 on.
        "bdist_wheel": {"py_limited_api": "cp311"},
        # Apart from what is kept in build/.
        "build": {"build_base": "build/wheel"},
    },
)
