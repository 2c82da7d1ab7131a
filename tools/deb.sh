#!/usr/bin/env bash
# tools/deb.sh [DIRECTORY]
#
# A package for Debian 12, into DIRECTORY (default: dist): the wheel that is there, or a new one, with
# the pinned Python packages in /usr/lib/cotenant, units, users, man page and completion.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-dist}")
wheels=build/wheels/3.11

mkdir -p "$out" "$wheels"
[ -n "$(ls "$out"/cotenant-*.whl 2>/dev/null)" ] || tools/wheel.sh "$out" >/dev/null
.venv/bin/python -m pip download --quiet --disable-pip-version-check --only-binary=:all: \
	--implementation cp --python-version 3.11 --no-deps --require-hashes --dest "$wheels" \
	--requirement requirements.txt
root=$(tools/root.sh bookworm bookworm,python3,python3-venv)
work=$(mktemp -d build/deb-XXXXXX)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{upper,overlay,root,source} "$work/tree/DEBIAN"
cp -r deploy requirements.txt "$wheels" "$work/source/"
cp "$out"/cotenant-*.whl "$work/source/"

# In its final place of a Debian that has what its users have; the mounts end with the command.
unshare --mount --propagation=private sh -euc '
	mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/overlay" "$2/root"
	mount --bind "$2/source" "$2/root/mnt"
	mount --rbind /proc "$2/root/proc"
	mount --bind /dev "$2/root/dev"
	cp /etc/ssl/certs/ca-certificates.crt "$2/root/tmp/" 2>/dev/null || true
	exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 chroot "$2/root" sh -euc "
		umask 022
		COTENANT_WHEEL=\$(ls /mnt/*.whl) bash /mnt/deploy/environment.sh /usr/lib/cotenant \
			--no-index --find-links=/mnt/3.11
		ln -s ../lib/cotenant/bin/cotenant /usr/bin/cotenant
		for shell in bash zsh fish; do
			cotenant completion \$shell >/mnt/completion.\$shell 2>/dev/null || rm -f /mnt/completion.\$shell
		done
	"
' build "$root" "$PWD/$work"

tree=$work/tree
put() { install -D -m "${3:-644}" "$1" "$tree/$2"; }
mkdir -p "$tree/usr/lib" "$tree/usr/bin"
mv "$work/upper/usr/lib/cotenant" "$tree/usr/lib/"
mv "$work/upper/usr/bin/cotenant" "$tree/usr/bin/"
for unit in deploy/systemd/*.{service,socket}; do
	put "$unit" "lib/systemd/system/$(basename "$unit")"
done
put deploy/systemd/cotenant.sysusers usr/lib/sysusers.d/cotenant.conf
put deploy/debian/cotenant.tmpfiles usr/lib/tmpfiles.d/cotenant.conf
put deploy/debian/copyright usr/share/doc/cotenant/copyright
gzip -9nc CHANGELOG.md >"$work/changelog.gz"
put "$work/changelog.gz" usr/share/doc/cotenant/changelog.gz
if [ -f docs/man/cotenant.1 ]; then
	gzip -9nc docs/man/cotenant.1 >"$work/man.gz"
	put "$work/man.gz" usr/share/man/man1/cotenant.1.gz
fi
if [ -f "$work/source/completion.bash" ]; then
	put "$work/source/completion.bash" usr/share/bash-completion/completions/cotenant
	put "$work/source/completion.zsh" usr/share/zsh/vendor-completions/_cotenant
	put "$work/source/completion.fish" usr/share/fish/vendor_completions.d/cotenant.fish
fi
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)
sed -e "s/@VERSION@/$version/" -e "s/@SIZE@/$(du -sk "$tree" | cut -f 1)/" deploy/debian/control \
	>"$tree/DEBIAN/control"
for script in postinst prerm postrm; do
	put "deploy/debian/$script" "DEBIAN/$script" 755
done
(cd "$tree" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | sort -z | xargs -0 md5sum) \
	>"$work/md5sums"
put "$work/md5sums" DEBIAN/md5sums
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) dpkg-deb --root-owner-group -Zzstd -z9 --build "$tree" \
	"$out/cotenant_${version}_amd64.deb" >/dev/null
ls "$out/cotenant_${version}_amd64.deb"
