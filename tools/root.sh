#!/usr/bin/env bash
# tools/root.sh NAME SUITE[,PACKAGE...]
#
# A Debian in build/roots/NAME, made once by debootstrap from the mirror that apt uses here, to build
# or to try packages in. Prints its path. What asks for other packages gets another name.
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# = 2 ] || { echo "usage: tools/root.sh NAME SUITE[,PACKAGE...]" >&2; exit 2; }
root=build/roots/$1
suite=${2%%,*}
packages=${2#"$suite"}
log=build/roots/$1.log

make_root() {
	[ "$(cat "$root.made" 2>/dev/null)" = "$2" ] && return
	[ "$(id -u)" = 0 ] || { echo "root.sh: debootstrap needs root; use sudo" >&2; exit 1; }
	rm -rf "$root"
	PATH=$PATH:/usr/sbin:/sbin debootstrap --variant=minbase --cache-dir="$PWD/build/roots/cache" \
		${packages:+--include="${packages#,}"} "$suite" "$root" >"$log" 2>&1 || { tail -n 3 "$log" >&2; exit 1; }
	rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
	printf %s "$2" >"$root.made"
}

mkdir -p build/roots/cache
# Another run that wants the same root waits for it.
(flock 9 && make_root "$@") 9>"$root.lock"
echo "$PWD/$root"
