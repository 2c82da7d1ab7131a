#!/usr/bin/env bash
# usage: deploy/environment.sh DIRECTORY [PIP-OPTION...]
#
# A Python environment with the pinned packages and with us, for the image and for the Debian package.
# COTENANT_WHEEL names our wheel; without it, one is built here, from the checkout.
set -euo pipefail
place=$1
shift
cd "$(dirname "$0")/.."
pip=("$place/bin/python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-compile)

python3 -m venv "$place"
"${pip[@]}" "$@" --require-hashes --requirement requirements.txt
"${pip[@]}" "$@" --no-deps --no-build-isolation "${COTENANT_WHEEL:-.}"

# What only builds or tests something has no place there.
packages=$(echo "$place"/lib/python3*/site-packages)
"$place/bin/python" -m pip uninstall --quiet --disable-pip-version-check --yes setuptools pip
find "$place/bin" -type f ! -name cotenant -delete
rm -rf "$packages"/pyarrow/{tests,include,src} "$packages"/numpy/f2py
find "$packages" -depth \( -name tests -o -name __pycache__ \) -type d -exec rm -rf {} +
find "$packages" \( -name '*.pxd' -o -name '*.pyx' -o -name '*.hpp' -o -name '*.a' \) -delete
# Compiled once, here: where it runs, the files may be read-only, and each command would wait for it.
"$place/bin/python" -m compileall -q -j 0 --invalidation-mode unchecked-hash "$packages"
