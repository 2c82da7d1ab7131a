#!/usr/bin/env bash
# tools/apt_private.sh SUITE[/COMPONENT]... -- PACKAGE[/SUITE]...
#
# Debian packages of other suites, for tests: fetched from the mirror that apt uses here, unpacked
# below build/apt/, never installed. Prints the directory of each package, in order. What was
# fetched once stays, and then no network is asked. The system's own lists are not touched.
set -euo pipefail
cd "$(dirname "$0")/.."

die() { printf 'apt_private: %s\n' "$*" >&2; exit 1; }

suites=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
	suites+=("$1")
	shift
done
[ $# -ge 2 ] && [ ${#suites[@]} -gt 0 ] || die "usage: apt_private.sh SUITE[/COMPONENT]... -- PACKAGE[/SUITE]..."
shift

packages=build/apt/packages
place() { printf '%s/%s' "$packages" "${1//\//@}"; }

missing=()
for package in "$@"; do
	[ -d "$(place "$package")" ] || missing+=("$package")
done

# The mirror of this system's own release, by apt's own account of its sources.
mirror() {
	local codename
	codename=$(. /etc/os-release && printf %s "${VERSION_CODENAME:-}")
	apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
		awk -v release="$codename" '$1 == release && $2 == "main" { print $3; exit }'
}

fetch() {
	local uri keyring=/usr/share/keyrings/debian-archive-keyring.gpg state suite component package options
	command -v apt-get >/dev/null || die "no apt-get here"
	uri=$(mirror)
	[ -n "$uri" ] || die "apt names no mirror of this system's release"
	state=build/apt/$(printf '%s ' "${suites[@]}" | cksum | cut -d ' ' -f 1)
	mkdir -p "$state"/{lists,cache,etc} "$packages"
	for suite in "${suites[@]}"; do
		component=main
		[ "${suite#*/}" = "$suite" ] || component=${suite#*/}
		printf 'deb [arch=amd64 signed-by=%s] %s %s %s\n' "$keyring" "$uri" "${suite%%/*}" "$component"
	done >"$state/etc/sources.list"
	options=(-qq -o APT::Sandbox::User=root -o "Dir::Etc::sourcelist=$PWD/$state/etc/sources.list"
		-o Dir::Etc::sourceparts=- -o "Dir::State::lists=$PWD/$state/lists"
		-o "Dir::Cache=$PWD/$state/cache" -o Acquire::Languages=none -o Acquire::Retries=3)
	if [ -z "$(find "$state" -maxdepth 1 -name read -mmin -1440)" ]; then
		apt-get "${options[@]}" update --error-on=any >&2 ||
			die "cannot read ${suites[*]} from apt's mirror"
		touch "$state/read"
	fi
	for package in "${missing[@]}"; do
		rm -rf "$state/new" && mkdir "$state/new"
		(cd "$state/new" && apt-get "${options[@]}" download "$package") >&2 ||
			die "cannot fetch $package of ${suites[*]} from apt's mirror"
		dpkg-deb --extract "$state"/new/*.deb "$state/new/root"
		rm -rf "$(place "$package")"
		mv "$state/new/root" "$(place "$package")"
		rm -rf "$state/new"
	done
}

if [ ${#missing[@]} -gt 0 ]; then
	mkdir -p build/apt
	# One at a time: apt's own lock would fail instead of waiting.
	(flock 9 && fetch) 9>build/apt/lock
fi
for package in "$@"; do
	place "$package" && echo
done
