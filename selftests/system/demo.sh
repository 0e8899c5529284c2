#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# What `make run` runs, examples/two-tenants.sh: with an araxd there and without, as
# root and as another user, and in a guest on the module too.  TAP on standard output.

set -uo pipefail

cd "$(dirname "$0")/../.." || exit 1
unset ARAX_LINK KERNEL PHOTO
work=$(mktemp -d /tmp/arax-demo.XXXXXX)
chmod 755 "$work"
daemon=
# shellcheck disable=SC2317 # it is called by the trap
cleanup() {
	[ -z "$daemon" ] || { kill "$daemon"; wait "$daemon"; } 2>/dev/null
	rm -rf "$work"
}
trap cleanup EXIT
export OUT=$work/result
n=0
failed=0
# shellcheck source=/dev/null
. selftests/system/tap.sh

other=(setpriv --reuid=65534 --regid=65534 --clear-groups)
cgroups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
two=0
if [ "$(id -u)" = 0 ] && [ -n "$cgroups" ] && mkdir "$cgroups/arax-try-$$" 2>/dev/null; then
	(echo "$BASHPID" >"$cgroups/arax-try-$$/cgroup.procs") 2>/dev/null && two=1
	rmdir "$cgroups/arax-try-$$"
fi

skip() { # WHAT REASON
	n=$((n + 1))
	echo "ok $n - $1 # SKIP $2"
}

demo() { # COMMAND...: in front of the demonstration, such as env and a variable, and becomes it
	local pid
	rm -rf "$OUT"
	"$@" bash examples/two-tenants.sh >"$work/out" 2>&1 &
	pid=$!
	# Of its own: another one's may be there, now or since it was killed.
	made=$cgroups/arax-demo-$pid-
	wait "$pid"
}

# The link and why; the table; the picture.
whole() { # LINK-AND-WHY
	grep -qF -- "Link: $1" "$work/out" &&
		grep -q '^  PROGRAM  *TENANT  *USER  *DEVICE  *TASKS' "$work/out" &&
		[ "$(tasks image-pipeline)" = 260 ] && [ "$(tasks montecarlo)" = 32 ] &&
		head -c 4 "$OUT/picture.png" | grep -qa PNG && ! compgen -G "$made*"
}

tasks() { awk -v p="$1" '$1 == p { sum += $5 } END { print sum }' "$work/out"; }

tenants() { # how many the table has
	[ "$(awk '$1 == "image-pipeline" || $1 == "montecarlo" { print $2 }' "$work/out" |
		sort -u | wc -l)" = "$1" ]
}

one_tenant() {
	tenants 1 && grep -q '^Tenants: one, as this is not root: ' "$work/out"
	ok $? 'and says that both are one tenant'
}

refused() { # TEXT
	grep -qF -- "$1" "$work/out" && ! grep -q ^Picture "$work/out"
}

start() { # COMMAND...
	mkfifo "$work/ready"
	# A reader is there before araxd may write and close it.
	exec 6<>"$work/ready"
	exec 5<"$work/ready"
	"$@" --ready-fd 9 9>&6 6>&- 5<&- 2>"$work/log" &
	daemon=$!
	exec 6>&-
	head -c 1 <&5 >/dev/null
	exec 5<&-
	rm "$work/ready"
}

stop() {
	kill "$daemon"
	wait "$daemon"
	ok $? 'which goes on, and ends well'
	daemon=
}

# Somebody else's araxd: it has what is installed, and not what the examples bring.
mkdir "$work/kernels"
cp build/lib/arax/kernels/arax-std[.-]* "$work/kernels/"
chmod -R go-w "$work/kernels"
echo "kernels { path = { \"$work/kernels\" } } sched { models = \"none\" }" >"$work/araxd.conf"
araxd=(build/bin/araxd --config "$work/araxd.conf" --tenants "$work/tenants.d")

bash examples/two-tenants.sh nonsense >"$work/out" 2>&1
[ $? = 2 ]
ok $? 'it takes no arguments'
! demo env PHOTO="$work/none" && refused "$work/none"
ok $? 'and wants a photograph'
! demo env ARAX_LINK="broker:$work/none" && refused 'no araxd there'
ok $? 'and an araxd where ARAX_LINK asks for one'

# ------------------------------------------------------------------
# Through a socket

if [ -e /dev/arax ] || [ -e /run/arax/arax.sock ]; then
	skip 'without an araxd' 'there is one on this machine'
else
	demo env && whole 'broker (no /dev/arax: the module is not loaded'
	ok $? 'without an araxd it starts one'
	if [ $two = 1 ]; then
		tenants 2 && grep -q '^Tenants: two, ' "$work/out"
		ok $? 'each program is a tenant of its own'
	elif [ "$(id -u)" = 0 ]; then
		tenants 1 && grep -q '^Tenants: one, though two users: .' "$work/out"
		ok $? 'why there is one tenant is said'
	else
		one_tenant
	fi
fi

# Kernels that programs bring need what not every kernel has.
lacks='Landlock|seccomp'
user=()
[ "$(id -u)" = 0 ] || user=(--user)
start "${araxd[@]}" ${user[@]+"${user[@]}"} --no-kernel --socket "$work/arax.sock"
if demo env ARAX_LINK="broker:$work/arax.sock" || ! grep -qE "$lacks" "$work/out"; then
	whole 'broker (ARAX_LINK asks for it)'
	ok $? 'where an araxd is it is taken, and brought the kernel that it lacks'
else
	skip 'where an araxd is it is taken' "$(grep -m 1 -oE "($lacks).*" "$work/out")"
fi
stop

if [ "$(id -u)" != 0 ]; then
	skip 'as another user' 'not root'
elif ! "${other[@]}" test -x build/bin/araxd; then
	skip 'as another user' "others can't run build/bin/araxd"
else
	chmod 777 "$work"
	if [ -e /dev/arax ]; then
		demo "${other[@]}" &&
			whole 'broker (no araxd is attached to /dev/arax, and only root can start one'
		ok $? 'as another user it goes through a socket, as nobody serves the module'
		one_tenant
		! demo "${other[@]}" env KERNEL=1 && refused 'only root can start one'
		ok $? 'and where KERNEL=1 asks for the module it says so'
	else
		demo "${other[@]}" && whole 'broker (no /dev/arax: the module is not loaded'
		ok $? 'as another user it starts an araxd'
		one_tenant
		! demo "${other[@]}" env KERNEL=1 && refused 'be root'
		ok $? 'and loads no module'
	fi
	chmod 755 "$work"
fi

# ------------------------------------------------------------------
# Through the module: in a guest, which is root's alone

if [ -e /dev/arax ] && [ -n "${ARAX_GUEST-}" ]; then
	demo env && whole 'kernel (/dev/arax is there, and an araxd of our own attaches to it)'
	ok $? 'on the module it starts an araxd where none is attached'
	tenants 2
	ok $? 'each program is a tenant of its own there, too'
	start "${araxd[@]}" --no-broker
	demo env && whole 'kernel (an araxd is attached to /dev/arax)'
	ok $? 'and takes the one that is'
	stop
	# Building it has no place here: the module is there.
	mkdir "$work/bin"
	printf '#!/bin/sh\nexit 0\n' >"$work/bin/make"
	chmod 755 "$work/bin/make"
	# What programs held goes a little after they have.
	for ((i = 0; i < 600; i++)); do
		! rmmod arax 2>/dev/null || break
		sleep 0.1
	done
	demo env KERNEL=1 PATH="$work/bin:$PATH" && whole 'kernel (KERNEL=1 asked for it' &&
		grep -q 'is unloaded again' "$work/out" && [ ! -e /dev/arax ]
	ok $? 'what KERNEL=1 loads is unloaded at the end'
	insmod build/kmod/arax.ko
fi

echo "1..$n"
exit $failed
