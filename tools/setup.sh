#!/usr/bin/env bash
# Everything a fresh Debian 12 or Ubuntu 24.04 needs to build and record (`make setup`), and with
# `tests`, `kernels`, `bench`, `spark` or `readers` as its argument what the tests, other kernels,
# measurements, questions on Spark or other readers of a store need besides. A stamp per step makes
# a second run free.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build

say() { printf 'setup: %s\n' "$*" >&2; }

packages=(
	gcc make git ca-certificates binutils procps
	clang-19 llvm-19 libbpf-dev libelf-dev zlib1g-dev linux-libc-dev libc6-dev bpftool
	python3 python3-venv python3-dev
	docker.io containerd podman runc
)
# Real tools as witnesses: what was sent, what was scraped, what a person sees.
test_packages=(e2fsprogs iproute2 nftables iptables iperf3 chromium debootstrap systemd)
# Machines for other kernels.
kernel_packages=(qemu-system-x86 busybox-static cpio kmod zstd debootstrap e2fsprogs)
# Programs that people run beside GPUs, and the least that can be done on the same hooks.
bench_packages=(
	rt-tests redis-server redis-tools postgresql fio sysbench nginx-light wrk bpftrace
)
# What Spark runs on.
spark_packages=(default-jre-headless)
# Programs of packages that would leave a service enabled: unpacked into build/, not installed.
unpacked_packages=(prometheus kubernetes-client)

# Whom a recorder becomes, with the number that it has everywhere.
user=(cotenant 65520)

installed() {
	[[ "$(dpkg-query -W -f='${Status}' "$1" 2>/dev/null)" == *'ok installed' ]] && return
	# Debian packages this tool by its name, Ubuntu with the kernel's tools.
	[ "$1" = bpftool ] && [ -n "$(PATH=$PATH:/usr/sbin command -v bpftool)" ]
}

available() { [ -n "$(apt-cache show "$1" 2>/dev/null | sed -n 's/^Filename: //p')" ]; }

# install STAMP PACKAGE...: what is missing of these, once.
install() {
	local stamp=build/.stamp-$1 missing=() wanted=() p
	shift
	[ "$stamp" -nt tools/setup.sh ] && return
	command -v apt-get >/dev/null || { say "no apt-get here: install $* by hand"; exit 1; }
	for p in "$@"; do
		installed "$p" || missing+=("$p")
	done
	if [ ${#missing[@]} -gt 0 ]; then
		[ "$(id -u)" = 0 ] || { say "needs root once, to install: ${missing[*]}"; exit 1; }
		say "installing ${missing[*]}"
		apt-get update -qq >build/apt.log 2>&1 || { tail -n 5 build/apt.log >&2; exit 1; }
		for p in "${missing[@]}"; do
			if available "$p"; then
				wanted+=("$p")
			elif [ "$p" = bpftool ]; then
				wanted+=(linux-tools-generic)
			else
				# Ubuntu has Chromium only as a snap: tests that need it say so.
				say "no package $p here; going on without it"
			fi
		done
		# A service that starts by itself would be running on the user's machine from now on.
		DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq \
			--no-install-recommends "${wanted[@]}" >>build/apt.log 2>&1 ||
			{ tail -n 5 build/apt.log >&2; say "apt-get failed; see build/apt.log"; exit 1; }
	fi
	touch "$stamp"
}

# unpack STAMP PACKAGE...: their programs into build/tools/, and nothing on the system.
unpack() {
	local stamp=build/.stamp-$1 p
	shift
	[ "$stamp" -nt tools/setup.sh ] && return
	mkdir -p build/packages build/tools
	for p in "$@"; do
		available "$p" || apt-get update -qq >>build/apt.log 2>&1 || true
		if ! available "$p"; then
			say "no package $p here; going on without it"
			continue
		fi
		say "unpacking $p into build/tools"
		rm -f build/packages/"$p"_*.deb
		(cd build/packages && apt-get download -qq -o APT::Sandbox::User=root "$p") \
			>>build/apt.log 2>&1 || { say "apt-get failed; see build/apt.log"; exit 1; }
		dpkg-deb --extract build/packages/"$p"_*.deb build/packages/"$p"
		cp build/packages/"$p"/usr/bin/* build/tools/
	done
	touch "$stamp"
}

# install_python STAMP FILE: what is pinned there, then the package itself, in place.
install_python() {
	# A stamp beside what it tells of goes with it.
	local stamp=.venv/.stamp-$1 pip=(.venv/bin/python -m pip install --quiet --disable-pip-version-check)
	[ "$stamp" -nt pyproject.toml ] && [ "$stamp" -nt "$2" ] && [ -x .venv/bin/cotenant ] && return
	say "installing Python packages ($2)"
	[ -x .venv/bin/python ] || python3 -m venv .venv
	"${pip[@]}" --require-hashes --requirement "$2"
	"${pip[@]}" --no-deps --no-build-isolation --editable .
	touch "$stamp"
}

# install_reader NAME REQUIREMENT...: a library in an environment of its own.
install_reader() {
	local place=build/readers/$1
	shift
	[ "$place/.stamp" -nt tools/setup.sh ] && return
	say "installing $* into $place"
	python3 -m venv "$place"
	"$place/bin/pip" install --quiet --disable-pip-version-check "$@"
	touch "$place/.stamp"
}

# make_user NAME NUMBER: where root can; a recorder has the number anyway.
make_user() {
	[ "$(id -u)" = 0 ] || return 0
	getent passwd "$1" >/dev/null && return
	getent passwd "$2" >/dev/null && return
	say "making the user $1 ($2), whom the recorder becomes"
	getent group "$1" >/dev/null || groupadd --gid "$2" "$1"
	useradd --uid "$2" --gid "$1" --no-create-home --home-dir /nonexistent \
		--shell /usr/sbin/nologin "$1"
}

case "${1:-}" in
"")
	install packages "${packages[@]}"
	make_user "${user[@]}"
	install_python python requirements.txt
	;;
tests)
	install test-packages "${test_packages[@]}"
	unpack test-tools "${unpacked_packages[@]}"
	install_python test-python requirements-dev.txt
	;;
kernels)
	install kernel-packages "${kernel_packages[@]}"
	;;
bench)
	install bench-packages "${bench_packages[@]}"
	;;
spark)
	command -v java >/dev/null || install spark-packages "${spark_packages[@]}"
	install_python spark-python requirements-spark.txt
	;;
readers)
	command -v java >/dev/null || install spark-packages "${spark_packages[@]}"
	install_reader duckdb 'duckdb==1.5.*'
	install_reader pyarrow 'pyarrow==15.*' 'numpy<2'
	install_reader polars polars
	install_reader pyspark 'pyspark==3.5.*'
	;;
*)
	say "usage: tools/setup.sh [tests|kernels|bench|spark|readers]"
	exit 2
	;;
esac
