#!/bin/sh
# The first process of a guest: mounts what a host has, runs its job, and switches off.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm /run
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t tmpfs run /run
mount -t bpf bpf /sys/fs/bpf
mount -t tracefs trace /sys/kernel/tracing
mount -t debugfs debug /sys/kernel/debug
hostname guest
ip link set lo up
root=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
cd "$root" || exit 1
.venv/bin/python -m vm.guest /dev/vdb >/dev/ttyS0 2>&1
sync
echo o >/proc/sysrq-trigger
# Nothing more is read from a disk that may be off by now.
while :; do :; done
