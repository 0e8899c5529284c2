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

Goes through /dev/arax if it is there and an araxd is attached to it, or can be
(as root); else through the socket of an araxd that is running, or of one of its
own.  It says which, and why.  In the environment:

  KERNEL=1   build the module and load it, if it is not loaded yet (as root); it
             is unloaded at the end
  ARAX_LINK  kernel or broker:PATH: go this way, to an araxd that is there
  PHOTO      another picture than examples/data/rocket.jpg
  OUT        another folder for the result than build/run

As root each program gets a user and a cgroup, and so is a tenant, of its own.
EOF
}

case "${1:-}" in
'') ;;
--help) usage; exit 0 ;;
*) usage >&2; exit 2 ;;
esac

fail() {
	echo "two-tenants: $*" >&2
	exit 1
}

top=$(cd "$(dirname "$0")/.." && pwd)
photo=$(realpath "${PHOTO:-$top/examples/data/rocket.jpg}")
[ -r "$photo" ] || fail "PHOTO=$photo can't be read"
out=${OUT:-$top/build/run}
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$top"
bin=$top/build/bin
system_socket=/run/arax/arax.sock
root=0
[ "$(id -u)" = 0 ] && root=1

work=$(mktemp -d /tmp/arax-run.XXXXXX)
chmod 755 "$work"
daemon=
loaded=0
groups=()
# What the last programs and their workers held goes a little after they have.
unload() {
	local i
	for ((i = 0; i < 600; i++)); do
		! rmmod arax 2>/dev/null || return 0
		sleep 0.1
	done
	rmmod arax
}
cleanup() {
	local status=$?
	if [ -n "$daemon" ]; then
		kill "$daemon" 2>/dev/null || true
		wait "$daemon" 2>/dev/null || true
	fi
	for g in ${groups[@]+"${groups[@]}"}; do
		rmdir "$g" || true
	done
	rm -rf "$work"
	if [ $loaded = 1 ] && unload; then
		echo "The module that KERNEL=1 loaded is unloaded again."
	elif [ $loaded = 1 ]; then
		echo "The module that KERNEL=1 loaded stays: rmmod arax"
	fi
	exit $status
}
trap cleanup EXIT

# ----------------------------------------------------------------------
# Which link, and why.

# Does an araxd answer there that has what runs tasks?
serves() { # LINK
	ARAX_LINK=$1 "$bin/arax" info --json 2>/dev/null | grep -q '"daemon": true'
}

own=0			# an araxd of our own is wanted
asked=${ARAX_LINK-}
no_module='no /dev/arax: the module is not loaded, and KERNEL=1 did not ask for it'
if [ -n "$asked" ]; then
	serves "$asked" || fail "ARAX_LINK=$asked: no araxd there: start it, or leave ARAX_LINK out"
	link=$asked
	why="ARAX_LINK asks for it"
else
	if [ "${KERNEL:-0}" = 1 ] && [ ! -e /dev/arax ]; then
		[ $root = 1 ] || fail "KERNEL=1 loads a module: be root"
		make --no-print-directory kmod
		insmod build/kmod/arax.ko
		loaded=1
	fi
	if [ -e /dev/arax ] && serves kernel; then
		link=kernel
		why="an araxd is attached to /dev/arax"
	elif [ -e /dev/arax ] && [ $root = 1 ]; then
		link=kernel
		own=1
		why="/dev/arax is there, and an araxd of our own attaches to it"
		[ $loaded = 0 ] || why="KERNEL=1 asked for it: the module is loaded"
	elif [ -e /dev/arax ] && [ "${KERNEL:-0}" = 1 ]; then
		fail "KERNEL=1: no araxd is attached to /dev/arax, and only root can start one"
	else
		[ ! -e /dev/arax ] ||
			no_module='no araxd is attached to /dev/arax, and only root can start one'
		link=broker:$system_socket
		why="$no_module; an araxd serves $system_socket"
		if ! serves "$link"; then
			link=broker:$work/arax.sock
			own=1
			why="$no_module; an araxd of our own"
		fi
	fi
fi
echo "Link: ${link%%:*} ($why)"

# ----------------------------------------------------------------------
# What the programs need.

# The users' own copies: their uids need not see this tree.
mkdir -p "$work/bin" "$work/lib" "$work/a" "$work/b"
cp build/examples/image-pipeline build/examples/montecarlo build/examples/kernels/montecarlo.so \
	"$work/bin/"
cp -P build/lib/libarax.so* "$work/lib/"
cp "$photo" "$work/photo"
chmod 644 "$work/photo"

if [ $own = 1 ]; then
	# Kernel libraries must lie in folders that nobody else can write to.
	mkdir -p "$work/kernels"
	cp build/lib/arax/kernels/arax-std[.-]* build/examples/kernels/montecarlo.* "$work/kernels/"
	chmod -R go-w "$work/kernels"
	echo "kernels { path = { \"$work/kernels\" } } sched { models = \"none\" }" >"$work/araxd.conf"
	options=(--config "$work/araxd.conf" --tenants "$work/tenants.d")
	if [ "$link" = kernel ]; then
		options+=(--no-broker)
	else
		options+=(--no-kernel --socket "$work/arax.sock")
		[ $root = 1 ] || options+=(--user)
	fi
	mkfifo "$work/ready"
	exec {ready}<>"$work/ready"
	"$bin/araxd" "${options[@]}" --ready-fd "$ready" &
	daemon=$!
	read -r -t 60 -n 1 -u "$ready" _ || fail "araxd did not become ready"
	exec {ready}>&-
fi
export ARAX_LINK=$link

# A tenant is a cgroup: make two if we may, and see whether a process can be moved there.
tenants=1
if [ $root = 0 ]; then
	echo "Tenants: one, as this is not root: both programs run as user $(id -u), in one cgroup"
else
	mount=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
	why="no cgroup2 file system is mounted"
	for name in a b; do
		[ -n "$mount" ] || break
		group=$mount/arax-demo-$$-$name
		why=$(mkdir "$group" 2>&1) || break
		groups+=("$group")
		why=$( (echo "$BASHPID" >"$group/cgroup.procs") 2>&1) || break
		[ $name = a ] || tenants=2
	done
	if [ $tenants = 2 ]; then
		echo "Tenants: two, a cgroup and a user each"
	else
		echo "Tenants: one, though two users: $why"
	fi
fi

in_tenant() { # NAME UID COMMAND...: a, whose cgroup is the first, or b
	local name=$1 uid=$2 index=0
	shift 2
	[ "$name" = a ] || index=1
	if [ $tenants = 2 ]; then
		echo "$BASHPID" >"${groups[$index]}/cgroup.procs" ||
			fail "the program can't be moved to ${groups[$index]}"
	fi
	# Where it is, whoever has moved it there.
	sed -n 's/^0:://p' "/proc/$BASHPID/cgroup" >"$work/$name.tenant"
	[ $root = 1 ] || exec "$@"
	chown "$uid" "$work/$name"
	exec setpriv --reuid "$uid" --regid "$uid" --clear-groups "$@"
}

# ----------------------------------------------------------------------
# Both at once, and what came of it.

echo "Devices:"
"$bin/arax" devices
(in_tenant a 65534 "$work/bin/image-pipeline" --repeat 20 --report "$work/a/report" \
	"$work/photo" "$work/a/picture.png") &
a=$!
(in_tenant b 65533 "$work/bin/montecarlo" --kernel "$work/bin/montecarlo.so" \
	--report "$work/b/report") &
b=$!
failed=0
wait "$a" || failed=1
wait "$b" || failed=1
[ $failed = 0 ] || fail "a program failed"

cp "$work/a/picture.png" "$out/picture.png"
for name in a b; do
	tenant=$(cat "$work/$name.tenant")
	sed "s|\$| ${tenant:--}|" "$work/$name/report"
done >"$out/report"
echo
echo "Who used which device for how long:"
{ "$bin/arax" devices --json; cat "$out/report"; } | awk '
	# The devices by their names, then a line a program and device.
	$1 == "\"index\":" { number = $2 + 0 }
	$1 == "\"name\":" { gsub(/[",]/, "", $2); device[number] = $2 }
	!/^[a-z]/ { next }
	!n++ { printf "  %-16s %-24s %-6s %-8s %6s %12s %12s\n", "PROGRAM", "TENANT", "USER",
		"DEVICE", "TASKS", "DEVICE ms", "WAITED ms" }
	{ printf "  %-16s %-24s %-6s %-8s %6d %12.2f %12.2f\n", $1, $7, $2, device[$3], $4,
		$5 / 1e6, $6 / 1e6 }'
echo
echo "Picture: $out/picture.png"
