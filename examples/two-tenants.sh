#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Two programs of two users share this machine's devices: one makes a line
# drawing of a photograph, the other estimates pi.  Ends with a table of who
# used which device for how long, and the path of the picture.

set -euo pipefail

usage() {
	cat <<'EOF'
usage: examples/two-tenants.sh [--help]

Runs on the kernel link if /dev/arax is there (KERNEL=1 builds and loads the
module first, as root), else on the broker link of an araxd of its own.
PHOTO=FILE takes another picture than examples/data/rocket.jpg.
EOF
}

case "${1:-}" in
'') ;;
--help) usage; exit 0 ;;
*) usage >&2; exit 2 ;;
esac

cd "$(dirname "$0")/.."
bin=$PWD/build/bin
photo=$(realpath "${PHOTO:-examples/data/rocket.jpg}")
out=$PWD/build/run
root=0
[ "$(id -u)" = 0 ] && root=1

work=$(mktemp -d /tmp/arax-run.XXXXXX)
chmod 755 "$work"
daemon=
groups=()
cleanup() {
	if [ -n "$daemon" ]; then
		kill "$daemon" 2>/dev/null || true
		wait "$daemon" 2>/dev/null || true
	fi
	for g in "${groups[@]}"; do
		rmdir "$g" 2>/dev/null || true
	done
	rm -rf "$work"
}
trap cleanup EXIT

# Which link, and why.
if [ ! -e /dev/arax ] && [ "${KERNEL:-0}" = 1 ]; then
	[ $root = 1 ] || { echo "two-tenants: KERNEL=1 loads a module: be root" >&2; exit 1; }
	make --no-print-directory kmod
	insmod build/kmod/arax.ko
fi
if [ -e /dev/arax ]; then
	link=kernel
	echo "Link: kernel (/dev/arax is there)"
else
	link=broker:$work/arax.sock
	echo "Link: broker (no /dev/arax: the module is not loaded, and KERNEL=1 did not ask for it)"
fi

# The users' own copies: their uids need not see this tree.
mkdir -p "$work/bin" "$work/lib" "$work/a" "$work/b"
cp build/examples/image-pipeline build/examples/montecarlo "$work/bin/"
cp -P build/lib/libarax.so* "$work/lib/"
cp "$photo" "$work/photo"
chmod 644 "$work/photo"

# Kernel libraries must lie in folders that nobody else can write to.
mkdir -p "$work/kernels"
cp build/lib/arax/kernels/arax-std[.-]* build/examples/kernels/montecarlo.* "$work/kernels/"
chmod -R go-w "$work/kernels"
cat >"$work/araxd.conf" <<EOF
kernels { path = { "$work/kernels" } }
EOF

if [ "$link" != kernel ] || ! ARAX_LINK=kernel "$bin/arax" info --json 2>/dev/null |
		grep -q '"epoch": [1-9]'; then
	options=(--config "$work/araxd.conf" --socket "$work/arax.sock" --tenants "$work/tenants.d")
	[ $root = 1 ] || options+=(--user)
	mkfifo "$work/ready"
	exec {ready}<>"$work/ready"
	"$bin/araxd" "${options[@]}" --ready-fd "$ready" &
	daemon=$!
	if ! read -r -t 20 -n 1 -u "$ready" _; then
		echo "two-tenants: araxd did not become ready" >&2
		exit 1
	fi
	[ $root = 1 ] && chmod 666 "$work/arax.sock" 2>/dev/null
	exec {ready}>&-
fi
export ARAX_LINK=$link

# A tenant is a cgroup: make two if we may.
cgroups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
in_tenant() { # NAME UID COMMAND...
	local name=$1 uid=$2 group=$cgroups/arax-demo-$1
	shift 2
	if [ $root = 1 ]; then
		if [ -n "$cgroups" ] && mkdir -p "$group" 2>/dev/null; then
			echo "$BASHPID" >"$group/cgroup.procs" 2>/dev/null || true
		fi
		chown "$uid" "$work/$name"
		exec setpriv --reuid "$uid" --regid "$uid" --clear-groups "$@"
	fi
	exec "$@"
}
[ $root = 1 ] && [ -n "$cgroups" ] &&
	groups=("$cgroups/arax-demo-a" "$cgroups/arax-demo-b")

echo "Devices:"
"$bin/arax" devices
(in_tenant a 65534 "$work/bin/image-pipeline" --repeat 20 --report "$work/a/report" \
	"$work/photo" "$work/a/picture.png") &
a=$!
(in_tenant b 65533 "$work/bin/montecarlo" --report "$work/b/report") &
b=$!
failed=0
wait "$a" || failed=1
wait "$b" || failed=1
[ $failed = 0 ] || { echo "two-tenants: a program failed" >&2; exit 1; }

mkdir -p "$out"
cp "$work/a/picture.png" "$out/picture.png"
cat "$work/a/report" "$work/b/report" >"$out/report"
echo
echo "Who used which device for how long:"
awk 'BEGIN { printf "  %-16s %-6s %-7s %6s %12s %12s\n", "PROGRAM", "UID", "DEVICE", "TASKS", "DEVICE ms", "WAITED ms" }
	{ printf "  %-16s %-6s %-7s %6d %12.2f %12.2f\n", $1, $2, $3, $4, $5 / 1e6, $6 / 1e6 }' "$out/report"
echo
echo "Picture: $out/picture.png"
