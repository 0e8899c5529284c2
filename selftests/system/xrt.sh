#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# A program, araxd and XRT's own user space with its noop shim: .xclbin files are loaded
# and swapped, kernels are run to their end, copies go both ways.  Nothing is computed
# there, and no card is asked for.

set -euo pipefail

cd "$(dirname "$0")/../.."
arax=$PWD/build/bin/arax
tests=$PWD/build/selftests/system
work=$(mktemp -d /tmp/arax-xrt-test.XXXXXX)
trap 'rm -rf "$work"' EXIT
export XDG_STATE_HOME=$work XDG_CACHE_HOME=$work

if [ ! -x "$tests/xclbin-make" ]; then
	echo "1..0 # SKIP built without XRT's headers (Debian: libxrt-dev)"
	exit 0
fi

# shellcheck source=/dev/null
. selftests/system/served.sh

n=0
status=0
check() {
	local name=$1
	shift
	n=$((n + 1))
	if "$@" >"$work/out" 2>&1; then
		echo "ok $n - $name"
	else
		echo "not ok $n - $name"
		sed 's/^/# /' "$work/out"
		status=1
	fi
}

mkdir "$work/kernels"
chmod 755 "$work" "$work/kernels"
"$tests/xclbin-make" "$work/kernels/a.xclbin" 170 'twice 1 G0U' 'store 1 G0U' \
	'look 1 G0U'
"$tests/xclbin-make" "$work/kernels/b.xclbin" 187 'other 2 G1U'
kernel() {
	echo "{ \"signature\": \"$1\", \"addressing\": \"launch\", \"implementations\":
		[ { \"kind\": \"xrt\", \"file\": \"$2.xclbin\", \"symbol\": \"${1%%(*}\" } ] }"
}
{
	echo '{ "library": "test", "version": "1", "kernels": ['
	kernel 'twice(inout u32 x[])' a
	echo ,
	kernel 'store(out u32 x[])' a
	echo ,
	kernel 'look(in u32 x[])' a
	echo ,
	kernel 'other(inout u32 x[])' b
	echo ,
	kernel 'absent(inout u32 x[])' b
	echo '] }'
} >"$work/kernels/test.json"
chmod 644 "$work"/kernels/*

more=
# on OPTIONS PROGRAM...: with such a backend and no other; the log is in $work/log
on() {
	local options='"emulation=noop"'

	[ -z "$1" ] || options="$options, $1"
	echo "cpu { enable = false } backend \"xrt\" { options = { $options } } $more" >"$work/conf"
	chmod 644 "$work/conf"
	shift
	"$arax" run --verbose --config "$work/conf" --kernels "$work/kernels" "$@" 2>"$work/log"
}

if ! on '' true; then
	if reason=$(grep -o 'backend=xrt reason=.*' "$work/log"); then
		echo "1..0 # SKIP $reason"
		exit 0
	fi
	echo "not ok 1 - an araxd with XRT's noop device starts"
	sed 's/^/# /' "$work/log"
	exit 1
fi

listed() {
	on '"memory=256M"' "$arax" devices --json | python3 -c 'import json, sys
d = json.load(sys.stdin)
assert [x["kind"] for x in d if x["online"]] == ["xrt"], d
d = d[0]
assert d["kind"] == "xrt" and d["online"] and d["name"] == "xrt0 noop", d
assert d["lanes"] == 3 and d["memory"] == 256 << 20, d'
}
check "arax devices lists the device, with a lane for each compute unit" listed

by_kind() {
	XCL_EMULATION_MODE=noop "$arax" run --kind xrt --kernels "$work/kernels" \
		"$tests/xrt" alternate | grep -qx 'done'
}
check "arax run --kind xrt needs no configuration" by_kind

copies() {
	local got

	got=$(on '"zero-copy=no"' "$tests/xrt" copies)
	echo "zero-copy=no: $got"
	[ "$got" = "the device's" ]
}
check "bytes are copied to buffer objects and back" copies

in_place() {
	local got

	got=$(on '' "$tests/xrt" copies)
	echo "zero-copy=auto: $got"
	[ "$got" = "the host's" ] && ! grep -q 'takes no pages of the host' "$work/log"
}
check "buffer objects are on the program's pages" in_place

# Of six tasks in turn each needs the other file.
alternate() {
	on '' "$tests/xrt" alternate | grep -qx 'done' || { cat "$work/log"; return 1; }
	cat "$work/log"
	[ "$(grep -c 'configuration [12] for kernel' "$work/log")" = 6 ] &&
		grep -q 'us; switch 6' "$work/log"
}
check "files are swapped as often as need be" alternate

# Twelve each.  Who waits for longer than a swap takes has one: how often that is is up to the machine.
mixed() {
	on '"zero-copy=no"' "$tests/xrt" mixed | grep -qx 'done' || { cat "$work/log"; return 1; }
	cat "$work/log"
	grep -q 'switch 2"' "$work/log"
}
check "tasks of two files at once all end, and none changes another's bytes" mixed

# That compares by copies of its own.
looked_at() {
	local more='debug { check_access = true }'

	on '' "$tests/xrt" look | grep -qx 'done' || { cat "$work/log"; return 1; }
	cat "$work/log"
}
check "kernels can be checked for what they declare" looked_at

missing() {
	on '' "$tests/xrt" missing >"$work/said"
	cat "$work/said" "$work/log"
	grep -q 'b.xclbin: has no kernel absent' "$work/log" && test -s "$work/said"
}
check "a kernel that is not in its file is named, and can't be launched" missing

truncated() {
	local rc=0

	mv "$work/kernels/b.xclbin" "$work/whole"
	head -c 1000 "$work/whole" >"$work/kernels/b.xclbin"
	on '' true || rc=1
	mv "$work/whole" "$work/kernels/b.xclbin"
	cat "$work/log"
	[ "$rc" = 0 ] && grep -q 'b.xclbin: 1000 bytes, its header says .*: it is truncated' "$work/log"
}
check "a truncated file is named" truncated

# The flow alone: bytes come and go, and no kernel computes.
out_of_core() {
	echo 'cpu { enable = false } backend "xrt" { options = { "emulation=noop", "memory=2M" } }' >"$work/conf"
	served "$work/conf" "$work/kernels" "$tests/four-times" twice && evicts
}
check "four times the data that the card has memory for" out_of_core

no_shim() {
	XILINX_XRT=/nowhere XCL_EMULATION_MODE=noop "$arax" run --kind xrt,cpu "$arax" devices |
		grep "XRT's driver part is missing: /nowhere/lib"
}
check "arax devices says that the shim is missing" no_shim

no_library() {
	mkdir -p "$work/empty"
	: >"$work/empty/libxrt_coreutil.so.2"
	LD_LIBRARY_PATH=$work/empty "$arax" run --kind xrt,cpu "$arax" devices |
		grep 'no XRT: install it (Debian: libxrt1)'
}
check "arax devices says that the library is missing" no_library

unknown_mode() {
	XCL_EMULATION_MODE=magic "$arax" run --kind xrt,cpu "$arax" devices |
		grep 'no XRT emulation "magic": noop, sw_emu or hw_emu'
}
check "an unknown emulation is refused by name" unknown_mode

# Whatever is here, it is either listed or explained.
hardware() {
	"$arax" run --kind xrt,cpu "$arax" devices >"$work/said"
	cat "$work/said"
	grep -q xrt "$work/said"
}
check "without an emulation there is a device, or a reason" hardware

echo "1..$n"
exit $status
