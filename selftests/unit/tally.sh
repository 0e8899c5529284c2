#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# scripts/tally counts what runners say: a wrong count would hide a failure.  TAP.

set -uo pipefail

cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
n=0
failed=0
# shellcheck source=/dev/null
. selftests/system/tap.sh

# counts EXPECTED STATUS WHAT ARG...: the last line of print, and the exit status
counts() {
	local expected=$1 status=$2 what=$3 rc=0 got
	shift 3
	ARAX_RESULTS=$work/r scripts/tally reset
	ARAX_RESULTS=$work/r scripts/tally "$@" >"$work/out" 2>&1 || rc=$?
	got=$(ARAX_RESULTS=$work/r scripts/tally print | tail -n 1)
	echo "$got, status $rc" >>"$work/out"
	[ "$got" = "$expected" ] && [ "$rc" = "$status" ]
	ok $? "$what"
}

tap() { # EXPECTED STATUS WHAT TEXT [PROGRAM'S STATUS]
	printf '%b' "$4" >"$work/tap"
	counts "$1" "$2" "$3" tap t "${5-0}" <"$work/tap"
}

tap '2 passed, 0 failed, 0 skipped' 0 'passed' '1..2\nok 1\nok 2\n'
tap '1 passed, 1 failed, 0 skipped' 1 'failed' '1..2\nok 1\nnot ok 2\n'
tap '1 passed, 0 failed, 1 skipped' 0 'skipped' 'ok 1\nok 2 - x # SKIP no y\n1..2\n'
tap '1 passed, 1 failed, 0 skipped' 1 'one is missing' '1..2\nok 1\n'
tap '0 passed, 1 failed, 0 skipped' 1 'no test at all' 'hello\n'
tap '1 passed, 1 failed, 0 skipped' 1 'all pass but the program fails' '1..1\nok 1\n' 1
tap '1 passed, 1 failed, 0 skipped' 1 'bail out' '1..1\nok 1\nBail out!\n'
tap '0 passed, 1 failed, 0 skipped' 1 'a plan of no tests' '1..0\n'
tap '0 passed, 0 failed, 1 skipped' 0 'but for a reason' '1..0 # SKIP no y\n'
tap '1 passed, 0 failed, 1 skipped' 0 'status 4 with a reason' '1..2\nok 1\nok 2 # SKIP no y\n' 4
tap '1 passed, 0 failed, 1 skipped' 0 'status 4 without one' '1..1\nok 1\n' 4
tap '0 passed, 1 failed, 0 skipped' 1 'status 4 of what failed' '1..1\nnot ok 1\n' 4
counts '1 passed, 0 failed, 0 skipped' 0 'a program without TAP' run t true
counts '0 passed, 1 failed, 0 skipped' 1 'that has a plan of no tests' run t echo 1..0
counts '0 passed, 0 failed, 1 skipped' 0 'but for a reason' run t echo '1..0 # SKIP no y'
counts '0 passed, 1 failed, 0 skipped' 1 'that fails' run t false
TALLY_LIMIT=1 counts '0 passed, 1 failed, 0 skipped' 124 'that takes too long' run t sleep 60
counts '0 passed, 0 failed, 1 skipped' 0 'or skips' run t sh -c 'echo no such thing; exit 4'
counts '0 passed, 1 failed, 0 skipped' 1 'or fails, and then skips' run t sh -c \
	'echo not ok 1; echo 1..1; exit 4'
counts '1 passed, 0 failed, 1 skipped' 0 'or passes, and then skips' run t sh -c \
	'echo ok 1; echo 1..1; exit 4'
# As libcheck does, which leaves its TAP in a file.
# shellcheck disable=SC2016
check='printf "ok 1 - a\nok 2 - b\n1..2\n" >"$CK_TAP_LOG_FILE_NAME"; '
counts '2 passed, 0 failed, 0 skipped' 0 'libcheck' run t sh -c "$check"
counts '2 passed, 0 failed, 2 skipped' 0 'libcheck with tests left out' run t sh -c \
	"$check printf 'ok - c # SKIP not root\nok - d # SKIP not root\n'"
# shellcheck disable=SC2016
counts '0 passed, 1 failed, 0 skipped' 1 'libcheck without a test' run t sh -c \
	'echo 1..0 >"$CK_TAP_LOG_FILE_NAME"'
counts '2 passed, 1 failed, 0 skipped' 1 'libcheck that dies' run t sh -c "$check exit 1"
# libcheck's own limit is 4 s, in which a busy machine may not run a program at all.
# shellcheck disable=SC2016
counts '2 passed, 0 failed, 0 skipped' 0 'libcheck has time' run t sh -c \
	"$check"'[ "$((CK_DEFAULT_TIMEOUT * CK_TIMEOUT_MULTIPLIER))" -ge 120 ]'
# Also behind one that dies, nothing is left; and any user's programs find it.
# shellcheck disable=SC2016
counts '0 passed, 1 failed, 0 skipped' 1 'a program that leaves a file' run t sh -c \
	'echo "$ARAX_TEST_TMP" >"$0"; touch "$ARAX_TEST_TMP/file"; stat -c %A "$ARAX_TEST_TMP/.." >>"$0"; exit 1' \
	"$work/left"
mapfile -t left <"$work/left"
[ -n "${left[0]}" ] && [ ! -e "${left[0]}" ] && [ "${left[1]}" = drwx--x--x ]
ok $? "which is removed"
ARAX_RESULTS=$work/r scripts/tally run t sh -c "$check echo 'ok - c # SKIP not root'" >"$work/out"
ARAX_RESULTS=$work/r scripts/tally print >"$work/out"
grep -q 'skipped: not root' "$work/out"
ok $? 'the reason is printed'
# What failed is said again at the end, where somebody who has but the end of a log finds it.
ARAX_RESULTS=$work/r scripts/tally reset
printf '# a\n# why\nnot ok 1 - b\n# where\nok 2\n# c\nnot ok 3 - d # TODO later\nnot ok 4 - e\n1..4\n' |
	ARAX_RESULTS=$work/r TALLY_SECONDS=3 scripts/tally tap u
ARAX_RESULTS=$work/r scripts/tally add v 0 0 1 '#12, and not ok'
ARAX_RESULTS=$work/r scripts/tally print >"$work/printed"
sed -n '/ u$/,$p' "$work/printed" >"$work/out"
for text in 'passed    2 failed    1 skipped     3 s  u' 'skipped: #12' 'failed in u:' '# why' 'not ok 1 - b' '# where' \
	'not ok 4 - e' '1 passed, 2 failed, 2 skipped'; do
	grep -qF -- "$text" "$work/out"
	ok $? "print says \"$text\""
done
! grep -q '# c' "$work/out"
ok $? 'remarks of what passed are left out'
ARAX_RESULTS=$work/r TALLY_SECONDS=61 scripts/tally add w 1 0 0
ARAX_RESULTS=$work/r scripts/tally print >"$work/out"
grep -q '1 passed    0 failed    0 skipped    61 s  w$' "$work/out"
ok $? 'print says how long it took'
echo "1..$n"
exit $failed
