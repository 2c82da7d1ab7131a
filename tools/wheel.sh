#!/usr/bin/env bash
# tools/wheel.sh [DIRECTORY]
#
# The wheel and the sdist, into DIRECTORY (default: dist). Built from what git tracks, in the oldest
# Debian that has clang-19, libbpf 1 and the headers of Python 3.11; the same bytes each time. The
# tag says which glibc it needs, and auditwheel confirms it.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-dist}")
platform=manylinux_2_34_x86_64
packages=gcc,make,binutils,clang-19,llvm-19,libbpf-dev,libelf-dev,zlib1g-dev,linux-libc-dev,libc6-dev
packages+=,python3,python3-dev,python3-venv,ca-certificates

die() { printf 'wheel: %s\n' "$*" >&2; exit 1; }

# The pinned backend, for the Python of that Debian.
backend() {
	awk '/^setuptools==/ { on = 1 } on { print } !/\\$/ { on = 0 }' requirements.txt >build/backend-pin.txt
	.venv/bin/python -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
		--only-binary=:all: --dest build/backend --requirement build/backend-pin.txt
}

mkdir -p build "$out"
root=$(tools/root.sh build "bookworm,$packages")
[ -n "$(ls build/backend/setuptools-*.whl 2>/dev/null)" ] || backend
source=$(mktemp -d "$root/tmp/wheel-XXXXXX")
trap 'rm -rf "$source"' EXIT
mkdir -p "$source"/{tree,backend}
git ls-files -z | tar --null --files-from=- --create | tar -C "$source/tree" --extract --no-same-owner
chmod -R u=rwX,go=rX "$source/tree"
cp build/backend/setuptools-*.whl "$source/backend"

env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
	SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}" \
	chroot "$root" /bin/bash -euc '
		umask 022
		cd "$1"
		python3 -m venv python
		python/bin/pip install --quiet --no-index backend/*.whl
		cd tree
		../python/bin/python -c "
import setuptools.build_meta as backend
backend.build_sdist(\"..\")
backend.build_wheel(\"..\", {\"--build-option\": \"--plat-name=$2\"})
" >../log 2>&1 || { tail -n 1 ../log >&2; exit 1; }
	' build "/tmp/$(basename "$source")" "$platform"

built=$(ls "$source"/*.whl)
.venv/bin/auditwheel show "$built" 2>/dev/null | tr '\n' ' ' | grep -q "platform tag: \"$platform\"" ||
	die "auditwheel does not confirm $platform for $(basename "$built")"
mv "$source"/*.whl "$source"/*.tar.gz "$out"
ls "$out/$(basename "$built")" "$out"/*.tar.gz
