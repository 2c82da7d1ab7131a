#!/usr/bin/env bash
# tools/apt_private.sh SUITE[/COMPONENT]... -- PACKAGE[/SUITE]...
# tools/apt_private.sh --names SUITE[/COMPONENT]... -- REGEX
#
# Packages of other suites, for tests: fetched from the mirror that apt uses here, unpacked below
# build/apt/, never installed. A suite is Debian's, or Ubuntu's with "ubuntu:" before it. Prints
# the directory of each package, in order; with --names the packages there are. What was fetched
# once stays, and then no network is asked. The system's own lists are not touched.
set -euo pipefail
cd "$(dirname "$0")/.."

die() { printf 'apt_private: %s\n' "$*" >&2; exit 1; }

names=
if [ "${1:-}" = --names ]; then
	names=yes
	shift
fi
suites=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
	suites+=("$1")
	shift
done
[ $# -ge 2 ] && [ ${#suites[@]} -gt 0 ] ||
	die "usage: apt_private.sh [--names] SUITE[/COMPONENT]... -- PACKAGE[/SUITE]..."
shift

packages=build/apt/packages
place() { printf '%s/%s' "$packages" "${1//\//@}"; }

# Ubuntu's mirror stands beside Debian's, and Debian packages its keys.
ubuntu_keyring=$(place ubuntu-keyring/trixie)/usr/share/keyrings/ubuntu-archive-keyring.gpg
case " ${suites[*]}" in
*" ubuntu:"*) [ -f "$ubuntu_keyring" ] || tools/apt_private.sh trixie -- ubuntu-keyring/trixie >/dev/null ;;
esac

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

sources() {
	local uri suite component
	uri=$(mirror)
	[ -n "$uri" ] || die "apt names no mirror of this system's release"
	for suite in "${suites[@]}"; do
		component=main
		[ "${suite#*/}" = "$suite" ] || component=${suite#*/}
		suite=${suite%%/*}
		if [ "${suite#ubuntu:}" != "$suite" ]; then
			printf 'deb [arch=amd64 signed-by=%s] %s %s %s\n' "$PWD/$ubuntu_keyring" \
				"${uri%/debian*}/ubuntu" "${suite#ubuntu:}" "$component"
		else
			printf 'deb [arch=amd64 signed-by=%s] %s %s %s\n' \
				/usr/share/keyrings/debian-archive-keyring.gpg "$uri" "$suite" "$component"
		fi
	done
}

# The lists of these suites, at most a day old; sets `state` and `options`.
update() {
	command -v apt-get >/dev/null || die "no apt-get here"
	state=build/apt/$(printf '%s ' "${suites[@]}" | cksum | cut -d ' ' -f 1)
	mkdir -p "$state"/{lists,cache,etc} "$packages"
	options=(-qq -o APT::Sandbox::User=root -o "Dir::Etc::sourcelist=$PWD/$state/etc/sources.list"
		-o Dir::Etc::sourceparts=- -o "Dir::State::lists=$PWD/$state/lists"
		-o "Dir::Cache=$PWD/$state/cache" -o Acquire::Languages=none -o Acquire::Retries=3)
	[ -z "$(find "$state" -maxdepth 1 -name read -mmin -1440)" ] || return 0
	sources >"$state/etc/sources.list" || exit 1
	# Of itself it takes a mirror that does not answer for an empty one.
	apt-get "${options[@]}" update --error-on=any >&2 ||
		die "cannot read ${suites[*]} from apt's mirror"
	touch "$state/read"
}

fetch() {
	local package
	update
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

if [ -n "$names" ]; then
	mkdir -p build/apt
	(flock 9 && update && apt-cache "${options[@]}" pkgnames | grep -E -- "$1" | sort || true) 9>build/apt/lock
	exit
fi
if [ ${#missing[@]} -gt 0 ]; then
	mkdir -p build/apt
	# One at a time: apt's own lock would fail instead of waiting.
	(flock 9 && fetch) 9>build/apt/lock
fi
for package in "$@"; do
	place "$package" && echo
done
