#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The arax command: usage, exit statuses, JSON; and what needs a daemon against a
# private one.  TAP on standard output.

set -uo pipefail

cd "$(dirname "$0")/../.." || exit 1
unset ARAX_LINK
arax=build/bin/arax
n=0
failed=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export XDG_RUNTIME_DIR=$tmp

is() { # STATUS WHAT COMMAND...: exit status, and no silence on failure
	local want=$1 what=$2 status
	shift 2
	"$@" >"$tmp/out" 2>"$tmp/err"
	status=$?
	n=$((n + 1))
	if [ "$status" = "$want" ] && { [ "$want" != 1 ] && [ "$want" != 2 ] || [ -s "$tmp/err" ]; }; then
		echo "ok $n - $what"
	else
		failed=1
		echo "not ok $n - $what: exit status $status, expected $want"
		sed 's/^/# /' "$tmp/out" "$tmp/err"
	fi
}

says() { # TEXT WHAT: the last command printed it
	n=$((n + 1))
	if grep -qF -- "$1" "$tmp/out" "$tmp/err"; then
		echo "ok $n - $2"
	else
		failed=1
		echo "not ok $n - $2: no \"$1\" in"
		sed 's/^/# /' "$tmp/out" "$tmp/err"
	fi
}

is 2 'no command' $arax
is 2 'an unknown command' $arax nonsense
is 0 'help' $arax --help
is 0 'version' $arax --version
for c in devices info kernels run ps kill tenant; do
	is 0 "$c --help" $arax $c --help
	says "usage: arax $c" "$c --help shows its usage"
	is 2 "$c with a wrong option" $arax $c --nonsense
done
is 2 'devices takes no operand' $arax devices x
is 2 'kill wants a context' $arax kill
is 2 'kill wants a number' $arax kill 1x
is 2 'kill wants a possible number' $arax kill 0
is 2 'tenant wants a verb' $arax tenant
is 2 'tenant wants a known verb' $arax tenant get
is 2 'tenant set wants something to set' $arax tenant set
is 2 'tenant set wants good values' $arax tenant set / memory.max=-1
is 2 'tenant set wants known keys' $arax tenant set memroy.max=1
is 2 'tenant unset wants no values' $arax tenant unset memory.max=1
is 2 'run wants a program' $arax run --
ARAX_LINK=nonsense is 1 'a wrong ARAX_LINK' $arax info
says 'want kernel, broker or broker:PATH' 'and the remedy'
ARAX_LINK=broker:$tmp/none is 1 'no daemon' $arax info
says 'is araxd running?' 'and the remedy'
ARAX_LINK=broker:$(printf '%0200d' 0) is 1 'a socket path too long' $arax info
ARAX_LINK=broker:$tmp/none is 1 'run starts no daemon other than the one asked for' $arax run true

if [ ! -x build/bin/araxd ]; then
	echo "ok $((n + 1)) - with a daemon # SKIP there is no build/bin/araxd"
	echo "1..$((n + 1))"
	exit $failed
fi

is 0 'run starts a private daemon' $arax run --private -- true
is 7 'run passes the exit status on' $arax run --private -- sh -c 'exit 7'
is 137 'run tells of a signal' $arax run --private -- sh -c 'kill -9 $$'
is 127 'run of what is not there' $arax run --private -- "$tmp/none"
is 126 'run of what is no program' $arax run --private -- "$tmp"
is 1 'run with a wrong configuration' $arax run --private --config "$tmp/none" -- true
n=$((n + 1))
left=$(find "$tmp" -name 'arax-run-*')
if [ -z "$left" ]; then
	echo "ok $n - run leaves nothing behind"
else
	failed=1
	echo "not ok $n - run leaves $left"
fi

cat >"$tmp/inside" <<'END'
set -e
valid() {
	if command -v python3 >/dev/null; then
		python3 -m json.tool >/dev/null
	else
		grep -q '^[]}]$'	# to the end, at least
	fi
}
for c in devices info kernels ps 'tenant show' ${CGROUP2:+'tenant show /'}; do
	build/bin/arax $c >/dev/null
	build/bin/arax $c --json | valid
done
END
# A tenant is named by its cgroup: without a mount there is no name.
CGROUP2=$(awk '$3 == "cgroup2"' /proc/self/mounts)
export CGROUP2
is 0 'tables and JSON' $arax run --private -- bash -o pipefail "$tmp/inside"
is 0 'devices are listed' $arax run --private -- $arax devices
says 'cpu0' 'and are the processor'
is 0 'the link is told' $arax run --private -- $arax info
says 'broker' 'and is the broker'
is 1 'kill of no context' $arax run --private -- $arax kill 4000000000
says 'killing context 4000000000' 'and says which'
is 1 'a cgroup that is not there' $arax run --private -- $arax tenant show /arax-none
if grep -q cgroup2 /proc/self/mounts; then
	is 0 'a limit is set and shown' $arax run --private -- bash -ec \
		"$arax tenant set / memory.max=3G tasks.max=77 device_time.max='5000 10000'
		$arax tenant show /; $arax tenant unset / tasks.max; $arax tenant show / --json"
	says '3 GiB' 'memory.max in the table'
	says '"max": 3221225472' 'memory.max in the JSON'
	says '"max_ns": 5000000' 'device_time.max in nanoseconds'
else
	n=$((n + 1))
	echo "ok $n - limits # SKIP no cgroup2 file system is mounted"
fi
echo "1..$n"
exit $failed
