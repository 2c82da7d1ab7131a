"""What a kernel needs to find its root disk, and modules that guests may load later."""

import lzma
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from vm import BUILD
from vm.packages import Unpacked

# In this order; what a kernel has built in, or does not have, is passed over.
_BOOT: Final = ("virtio_pci", "virtio_blk", "crc32c_generic", "crc32c", "crc32c_intel", "ext4")
_LATER: Final = ("overlay", "veth", "loop", "null_blk", "nf_tables", "nft_numgen", "nft_limit")

_INIT: Final = """#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t proc proc /proc
for module in $(/bin/busybox cat /modules); do /bin/busybox insmod $module; done
n=0
while [ ! -b /dev/vda ] && [ $n -lt 100 ]; do /bin/busybox sleep 0.1; n=$((n + 1)); done
/bin/busybox mount -t ext4 /dev/vda /root || exec /bin/busybox sh
/bin/busybox mkdir -p /root/lib/modules
/bin/busybox mount -t tmpfs modules /root/lib/modules
/bin/busybox cp -a /lib/modules/. /root/lib/modules/
for word in $(/bin/busybox cat /proc/cmdline); do
	case $word in guest=*) guest=${word#guest=} ;; esac
done
/bin/busybox umount /proc /dev
exec /bin/busybox switch_root /root $guest
"""


def build(kernel: Unpacked) -> Path:
    """The initramfs of a kernel; its guests start with what ``guest=`` on its command line says."""
    target = BUILD / f"initramfs-{kernel.release}.cpio"
    if target.exists():
        return target
    tree = BUILD / f"initramfs-{kernel.release}"
    shutil.rmtree(tree, ignore_errors=True)
    for directory in ("bin", "dev", "proc", "root"):
        (tree / directory).mkdir(parents=True)
    shutil.copy2("/bin/busybox", tree / "bin/busybox")
    loaded = _install(kernel, tree)
    (tree / "modules").write_text("\n".join(loaded))
    script = tree / "init"
    script.write_text(_INIT)
    script.chmod(0o755)
    _pack(tree, target)
    shutil.rmtree(tree)
    return target


def _install(kernel: Unpacked, tree: Path) -> list[str]:
    """Copy the modules with all that they need; those to load at boot, in order."""
    place = tree / "lib/modules" / kernel.release
    boot: list[str] = []
    for name in (*_BOOT, *_LATER):
        for module in _closure(kernel, name):
            inside = place / module.relative_to(kernel.modules)
            # Old busyboxes load only what is not compressed.
            inside = inside.with_name(inside.name.partition(".ko")[0] + ".ko")
            if not inside.exists():
                inside.parent.mkdir(parents=True, exist_ok=True)
                inside.write_bytes(_content(module))
            path = "/" + str(inside.relative_to(tree))
            if name in _BOOT and path not in boot:
                boot.append(path)
    for listing in ("modules.builtin", "modules.order", "modules.builtin.modinfo"):
        if (kernel.modules / listing).exists():
            shutil.copy2(kernel.modules / listing, place / listing)
    _depmod(tree, kernel.release)
    return boot


def _depmod(root: Path, release: str) -> None:
    # It warns of lists that packages leave to their own installation.
    subprocess.run(["depmod", "-b", root, release], check=True, stderr=subprocess.DEVNULL)


def _closure(kernel: Unpacked, name: str) -> list[Path]:
    """The file of a module and of those before it; none if it is built in or unknown."""
    directory = kernel.modules.parents[2]
    if not (kernel.modules / "modules.dep").exists():
        _depmod(directory, kernel.release)
    asked = subprocess.run(
        ["modprobe", "-d", directory, "-S", kernel.release, "--show-depends", name],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = [line.split() for line in asked.stdout.splitlines()]
    return [
        kernel.modules / words[1].partition(f"/{kernel.release}/")[2]
        for words in lines
        if words[0] == "insmod"
    ]


def _content(module: Path) -> bytes:
    if module.suffix == ".xz":
        return lzma.decompress(module.read_bytes())
    if module.suffix == ".zst":
        return subprocess.run(["zstd", "-dcq", module], capture_output=True, check=True).stdout
    return module.read_bytes()


def _pack(tree: Path, target: Path) -> None:
    names = "\n".join(
        os.path.relpath(os.path.join(directory, name), tree)
        for directory, inner, files in os.walk(tree)
        for name in (*inner, *files)
    )
    with target.with_suffix(".part").open("wb") as file:
        subprocess.run(
            ["cpio", "-o", "-H", "newc", "--quiet"], input=names.encode(), stdout=file, cwd=tree,
            check=True,
        )  # fmt: skip
    target.with_suffix(".part").rename(target)
