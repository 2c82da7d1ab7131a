#!/usr/bin/env bash
# Everything a fresh Debian 12 or Ubuntu 24.04 needs to build, record and test; `make setup` runs it.
# A stamp per step makes a second run cost nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build

say() { printf 'setup: %s\n' "$*" >&2; }

packages=(
	gcc make git ca-certificates pkg-config
	clang-19 llvm-19 libbpf-dev libelf-dev zlib1g-dev linux-libc-dev libc6-dev
	python3 python3-venv python3-dev
)
# The tests run real containers; looking at real tools is how they know.
test_packages=(
	docker.io containerd podman runc busybox-static iproute2 nftables iptables iperf3
	chromium prometheus
)

bpftool_package() {
	# Debian packages the tool by its name, Ubuntu with the kernel's tools.
	if apt-cache show bpftool 2>/dev/null | grep -q '^Filename'; then
		echo bpftool
	else
		echo linux-tools-generic
	fi
}

install_packages() {
	local stamp=build/.stamp-packages missing=() p
	[ "$stamp" -nt tools/setup.sh ] && return
	command -v apt-get >/dev/null || { say "no apt-get here: install ${packages[*]} by hand"; exit 1; }
	for p in "${packages[@]}" "${test_packages[@]}"; do
		dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
	done
	command -v bpftool >/dev/null || [ -x /usr/sbin/bpftool ] || missing+=(bpftool)
	if [ ${#missing[@]} -gt 0 ]; then
		[ "$(id -u)" = 0 ] || { say "needs root once, to install: ${missing[*]}"; exit 1; }
		say "installing ${missing[*]}"
		apt-get update -qq >build/apt.log 2>&1 || { tail -n 5 build/apt.log >&2; exit 1; }
		missing=("${missing[@]/bpftool/$(bpftool_package)}")
		# Ubuntu has Chromium only as a snap; without it, tests of the page are skipped and say so.
		apt-cache show chromium 2>/dev/null | grep -q '^Filename' ||
			mapfile -t missing < <(printf '%s\n' "${missing[@]}" | grep -vx chromium)
		# A service that starts by itself would be running on the user's machine from now on.
		DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq \
			--no-install-recommends "${missing[@]}" >>build/apt.log 2>&1 ||
			{ tail -n 5 build/apt.log >&2; say "apt-get failed; see build/apt.log"; exit 1; }
	fi
	touch "$stamp"
}

install_python() {
	local stamp=build/.stamp-python
	[ "$stamp" -nt pyproject.toml ] && [ -x .venv/bin/cotenant ] && return
	say "making .venv"
	[ -x .venv/bin/python ] || python3 -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check \
		--editable '.[dev,look,export]'
	touch "$stamp"
}

install_packages
install_python
