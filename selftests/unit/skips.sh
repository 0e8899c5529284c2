#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# selftests/system/run.sh counts as skipped, and says why, what it has no driver in software for.  TAP.

set -uo pipefail

cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
n=0
failed=0
# shellcheck source=/dev/null
. selftests/system/tap.sh

# is WHAT COMMAND...: it succeeds
is() {
	"${@:2}" >/dev/null
	ok $? "$1"
}

export ARAX_RESULTS=$work/results
ARAX_TEST_CUDA=$work/none.so selftests/system/run.sh coherent-emulated >"$work/out" 2>&1
status=$?
scripts/tally print >"$work/log"
tail -n 1 "$work/out" >"$work/last"
is 'nothing has failed' [ $status = 0 ]
is 'nothing has passed' grep -q '^0 passed, 0 failed, 6 skipped$' "$work/log"
is 'which file is missing is counted' grep -q "skipped: there is no $work/none.so: " "$work/log"
is 'and said' grep -q "^# system/coherent-emulated is skipped: there is no $work/none.so: " "$work/out"
is 'the last line has all that was skipped' \
	grep -q '^# 6 skipped: system/coherent-emulated .*-apart$' "$work/last"
echo "1..$n"
exit $failed
