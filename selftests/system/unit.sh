#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# araxd with no more rights than its unit of systemd's leaves it: a program's own kernel runs, of
# root's and of another user's.  And when it is told to end as the unit says, what runs is
# finished.  TAP on standard output.
# usage: unit.sh ARAXD

set -uo pipefail

cd "$(dirname "$0")/../.." || exit 1
araxd=$1
unit=daemon/systemd/araxd.service.in
n=0
failed=0
daemon=
# shellcheck source=/dev/null
. selftests/system/tap.sh

skip() {
	echo "ok 1 - the unit's rights # SKIP $1"
	echo '1..1'
	exit 0
}
[ "$(id -u)" = 0 ] || skip 'not root'
command -v setpriv >/dev/null || skip 'no setpriv (util-linux)'
rights=$(sed -n 's/^CapabilityBoundingSet=//p' "$unit" | tr 'A-Z ' 'a-z,' | sed 's/cap_/+/g')
setpriv --bounding-set="-all,$rights" true 2>/dev/null || skip 'no capabilities to give up'

work=$(mktemp -d /tmp/arax-unit.XXXXXX)
chmod 755 "$work"
trap '[ -z "$daemon" ] || kill -9 "$daemon" 2>/dev/null; rm -rf "$work"' EXIT
echo "sched { models = \"$work/models.json\" }" >"$work/araxd.conf"
: >"$work/out"
export ARAX_LINK=broker:$work/arax.sock

mkfifo "$work/ready"
exec {ready}<>"$work/ready"
setpriv --no-new-privs --inh-caps=-all --bounding-set="-all,$rights" "$araxd" --no-kernel \
	--config "$work/araxd.conf" --socket "$work/arax.sock" --tenants "$work/tenants.d" \
	--ready-fd "$ready" 2>"$work/log" &
daemon=$!
read -r -t 60 -n 1 -u "$ready" _
ok $? 'araxd is ready'
exec {ready}>&-

own=(build/examples/montecarlo --kernel build/examples/kernels/montecarlo.so)
"${own[@]}" >"$work/out" 2>&1
ok $? "a kernel of root's own runs"
setpriv --reuid 65533 --regid 65533 --clear-groups "${own[@]}" >"$work/out" 2>&1
ok $? "a kernel of a user's own runs"

# The first process alone, or all of the unit's: workers as well.
tell() {
	case $(sed -n 's/^KillMode=//p' "$unit") in
	mixed | process) kill "$daemon" ;;
	*) kill "$daemon" $(pgrep -P "$daemon") ;;
	esac
}

"${own[@]}" --samples 5000000 >"$work/out" 2>&1 &
program=$!
for _ in $(seq 100); do
	[ -z "$(pgrep -P "$daemon" -r R)" ] || break
	sleep 0.1
done
tell
wait "$daemon"
ok $? 'araxd ends well'
wait "$program"
! grep 'worker is gone' "$work/log" >"$work/out"
ok $? 'tasks that run in workers are finished first'
daemon=
echo "1..$n"
exit $failed
