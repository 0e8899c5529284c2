#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The Makefile's own targets: what plain make makes, and that what measures, or needs the
# machine, runs by itself, however many jobs make was given.  TAP.

set -uo pipefail

cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
n=0
failed=0

# In place of each inner make: says what it was asked for, and with what jobs.
cat >"$work/model.mk" <<'END'
test-needs default check-all test-all test-alone bench-all:
	@echo "$@: $(MAKEFLAGS)"
END
cat >"$work/make" <<END
#!/bin/sh
exec make -f "$work/model.mk" "\$@"
END
chmod +x "$work/make"

# alone OUTER INNER: make OUTER runs INNER with one job
alone() {
	n=$((n + 1))
	# Nothing is to be installed for it: the target "setup" counts as done.
	if env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s -j3 -o setup MAKE="$work/make" "$1" \
			>"$work/out" 2>&1 &&
		grep -q "^$2:.* -j1\( \|$\)" "$work/out" && ! grep -q "^$2:.*jobserver" "$work/out"; then
		echo "ok $n - make -j3 $1 runs $2 one after the other"
	else
		failed=1
		echo "not ok $n - make -j3 $1 runs $2 one after the other"
		sed 's/^/# /' "$work/out"
	fi
}

alone test test-alone
alone bench bench-all

n=$((n + 1))
goal=$(env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -pq MAKEFLAGS= 2>/dev/null |
	sed -n 's/^\.DEFAULT_GOAL := //p')
if [ "$goal" = all ]; then
	echo "ok $n - plain make makes all"
else
	failed=1
	echo "not ok $n - plain make makes all: it makes $goal"
fi

# says WHAT VARIABLE=VALUE...: what is not built is counted as skipped
says() {
	n=$((n + 1))
	if env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -n "${@:2}" check-all >"$work/out" 2>&1 &&
		grep -q "tally add $1 0 0 1 " "$work/out"; then
		echo "ok $n - with ${*:2} $1 is counted as skipped"
	else
		failed=1
		echo "not ok $n - with ${*:2} $1 is counted as skipped"
	fi
}

says unit/be_opencl OPENCL_HEADERS=no
says unit/be_opencl_std OPENCL_HEADERS=no
says unit/be_xrt XRT_HEADERS=no
says unit/be_gpu EMULATED=
echo "1..$n"
exit $failed
