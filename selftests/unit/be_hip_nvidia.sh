#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# HIP's NVIDIA headers: that the GPU backend compiles with them (make has done that), and
# that araxd takes what comes of it.  There is no device: the driver is the CUDA Toolkit's
# library for linking, which says so.

set -uo pipefail

cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=/dev/null
. selftests/system/served.sh
plugin=${1-} runtime=${2-}
echo 1..4
if [ ! -e "$plugin" ] || [ ! -e "$runtime" ]; then
	for i in 1 2 3 4; do
		echo "ok $i - hip-nvidia # SKIP no CUDA Toolkit with its runtime, or no libamdhip64-dev"
	done
	exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0

# is NUMBER NAME RC
is() {
	if [ "$3" = 0 ]; then
		echo "ok $1 - $2"
	else
		echo "not ok $1 - $2"
		sed 's/^/# /' "$work/out"
		status=1
	fi
}

nm -D --defined-only "$plugin" | awk '{ print $3 }' >"$work/out"
[ "$(cat "$work/out")" = arax_backend_init ]
is 1 'it has the one symbol of a plug-in' $?

readelf -d "$plugin" >"$work/out"
grep -q 'NEEDED.*libcudart' "$work/out" && grep -q 'NEEDED.*libcuda\.so\.1' "$work/out"
is 2 "it needs CUDA's runtime and driver, and nothing of ROCm" \
	$(($? + $(grep -c 'NEEDED.*amdhip' "$work/out")))

libs=$(dirname "$runtime")
cp "$plugin" "$work/hip.so"
chmod 644 "$work/hip.so"
cp -L "$libs/stubs/libcuda.so" "$work/libcuda.so.1" 2>/dev/null
echo "cpu { groups = { \"0\" } } backend \"hip\" { file = \"$work/hip.so\" }" >"$work/conf"

# start PATH: araxd until it is ready, with the libraries of PATH
start() {
	: >"$work/out"
	XDG_STATE_HOME=$work LD_LIBRARY_PATH=$1 timeout 120 build/bin/araxd --user \
		--config "$work/conf" --socket "$work/sock" >>"$work/out" 2>&1 &
	await_line "araxd is ready\|can't start" "$work/out"
	kill $! 2>/dev/null
	wait $!
}

if [ -e "$work/libcuda.so.1" ]; then
	start "$libs:$work"
	grep -q 'backend has no device backend=hip reason=".*Error.*nvidia kernel module' "$work/out"
	is 3 'araxd takes it, and says that there is no device' $?
	rm "$work/libcuda.so.1"
	start "$libs:$work"
	if ldconfig -p | grep "libcuda\.so\.1" >/dev/null; then
		echo "ok 4 - without a driver # SKIP there is one here"
	else
		grep -q 'backend refused backend=hip .*libcuda' "$work/out"
		is 4 'without a driver it is refused, with the reason' $?
	fi
else
	echo "ok 3 - araxd takes it # SKIP this toolkit has no library for linking"
	echo "ok 4 - without a driver # SKIP likewise"
fi
exit $status
