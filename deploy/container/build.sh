#!/usr/bin/env bash
# usage: deploy/container/build.sh [DOCKER-BUILD-OPTION...]
#
# Builds the image `cotenant:VERSION` where containers reach no Python package index: packages are
# downloaded here, with this machine's own settings for pip, and installed from there. Where no
# registry is reached either, this makes the base image:
#
#   debootstrap --variant=minbase bookworm base
#   tar -C base -c . | docker import - debian:12
set -euo pipefail
cd "$(dirname "$0")/../.."
wheels=build/wheels
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)

mkdir -p "$wheels"
# For the interpreter of Debian 12, whichever runs here.
"${PYTHON:-.venv/bin/python}" -m pip download --quiet --disable-pip-version-check \
	--only-binary=:all: --implementation cp --python-version 3.11 --no-deps --require-hashes \
	--dest "$wheels/3.11" --requirement requirements.txt
exec docker build --file deploy/container/Dockerfile --tag "cotenant:$version" \
	--build-arg PIP_OPTIONS="--no-index --find-links=/source/$wheels/3.11" "$@" .
