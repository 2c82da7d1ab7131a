#!/usr/bin/env bash
# Pins anew what is installed (`make pins`): the newest versions that pyproject.toml allows, for
# every Python from 3.11 on, with the hashes of their files and without the address of any index.
set -euo pipefail
cd "$(dirname "$0")/.."
tool=build/pins

[ -x $tool/bin/python ] || python3 -m venv $tool
$tool/bin/python -m pip install --quiet --disable-pip-version-check --upgrade uv
# uv does not read pip's settings; the index that was chosen for pip is meant for it too.
index=$($tool/bin/python -m pip config get global.index-url 2>/dev/null || true)
# What builds the package is installed before it, like all else.
python3 - pyproject.toml >build/backend.txt <<'P'
import sys, tomllib
print(*tomllib.load(open(sys.argv[1], "rb"))["build-system"]["requires"], sep="\n")
P
python3 - pyproject.toml >build/spark.txt <<'P'
import sys, tomllib
print(*tomllib.load(open(sys.argv[1], "rb"))["project"]["optional-dependencies"]["spark"], sep="\n")
P

# pin FILE OPTION... SOURCE...
pin() {
	local file=$1
	shift
	$tool/bin/uv pip compile --quiet --universal --upgrade --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-annotate \
		--custom-compile-command 'make pins' ${index:+--default-index "$index"} \
		--output-file "$file" "$@"
}

project=(--only-binary :all: --extra look --extra export pyproject.toml build/backend.txt)
pin requirements.txt "${project[@]}"
pin requirements-dev.txt --extra dev --constraint requirements.txt "${project[@]}"
# Spark comes as source, and beside what the tests need.
pin requirements-spark.txt --constraint requirements-dev.txt build/spark.txt
