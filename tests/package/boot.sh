#!/bin/sh
# boot.sh BASE PLACE SHARED SCRIPT: systemd as the first process of a Debian of its own, in namespaces
# of its own; it runs SCRIPT, whose output is PLACE/upper/root/said, and ends. SHARED is there as /mnt.
set -e
cgroup=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)/cotenant-test-systemd-$$
mkdir "$cgroup"
echo $$ >"$cgroup/cgroup.procs"
mkdir -p "$2/upper/root" "$2/upper/etc/systemd/system/multi-user.target.wants" "$2/work" "$2/root"
cp "$4" "$2/upper/root/script"
chmod +x "$2/upper/root/script"
cat >"$2/upper/etc/systemd/system/script.service" <<X
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/sh -c '/root/script >/root/said 2>&1; systemctl poweroff --force --force'
X
ln -s ../script.service "$2/upper/etc/systemd/system/multi-user.target.wants/script.service"
ln -s /lib/systemd/system/multi-user.target "$2/upper/etc/systemd/system/default.target"

exec unshare --mount --propagation=private --pid --fork --kill-child --ipc --uts --cgroup --net sh -ec '
	new=$2/root
	mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$new"
	mount -t proc proc "$new/proc"
	mount --rbind /sys "$new/sys"
	umount -l "$new/sys/fs/cgroup" || true
	mount -t cgroup2 cgroup2 "$new/sys/fs/cgroup"
	mount -t tmpfs tmpfs "$new/run"
	mount -t tmpfs -o mode=755 tmpfs "$new/dev"
	for name in null zero full random urandom tty; do
		mknod -m 666 "$new/dev/$name" c $(stat -c "0x%t 0x%T" "/dev/$name")
	done
	mkdir "$new"/dev/pts "$new"/dev/shm "$new"/dev/mqueue "$new"/dev/hugepages
	mount -t devpts -o newinstance,ptmxmode=666 devpts "$new/dev/pts"
	ln -s pts/ptmx "$new/dev/ptmx"
	mount -t tmpfs tmpfs "$new/dev/shm"
	mount --bind "$3" "$new/mnt"
	cd "$new"
	mkdir -p old
	pivot_root . old
	umount -l /old
	exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd
' boot "$1" "$2" "$3"
