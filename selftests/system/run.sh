#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The whole stack over the broker link, from outside: a private araxd, and the
# same test programs that the guests run over /dev/arax (see guest.sh).

set -euo pipefail

cd "$(dirname "$0")/../.."
tests=$PWD/build/selftests/system
work=$(mktemp -d /tmp/arax-system.XXXXXX)
daemon=
cleanup() {
	[ -z "$daemon" ] || { kill "$daemon" 2>/dev/null || true; wait "$daemon" 2>/dev/null || true; }
	rm -rf "$work"
}
trap cleanup EXIT

export XDG_STATE_HOME=$work
mkdir "$work/kernels"
cp build/lib/arax/kernels/arax-std.* "$tests"/kernels/systest.* "$work/kernels/"
chmod -R go-w "$work"
cat >"$work/araxd.conf" <<EOF
kernels { path = { "$work/kernels" } }
EOF
araxd="build/bin/araxd --user --no-kernel --config $work/araxd.conf --socket $work/arax.sock"

mkfifo "$work/ready"
exec {ready}<>"$work/ready"
# shellcheck disable=SC2086 # the command is words
$araxd --ready-fd "$ready" 2>"$work/log" &
daemon=$!
if ! read -r -t 20 -n 1 -u "$ready" _; then
	echo "araxd did not become ready:" >&2
	cat "$work/log" >&2
	exit 1
fi
export ARAX_LINK=broker:$work/arax.sock
status=0
"$tests/system" | scripts/tally tap system/broker || status=1
if ! kill -0 "$daemon" 2>/dev/null; then
	echo "araxd died:" >&2
	tail -n 40 "$work/log" >&2
	status=1
fi
[ $status = 0 ] || tail -n 40 "$work/log" >&2
kill "$daemon" 2>/dev/null || true
wait "$daemon" || { echo "araxd did not end cleanly" >&2; status=1; }
daemon=

export ARAX_TEST_DAEMON="$araxd"
"$tests/daemon-death" | scripts/tally tap system/broker-death || status=1

# shellcheck disable=SC2086 # the command is words
selftests/system/saved.sh build/bin/arax $araxd | scripts/tally tap system/broker-saved || status=1
exit $status
