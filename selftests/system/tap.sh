# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# To be sourced by tests that print TAP and have set n and failed to 0: counts them in
# n, and failed is 1 once one has failed.  $work/out is what is shown of a test that does.

ok() { # STATUS WHAT
	n=$((n + 1))
	if [ "$1" = 0 ]; then
		echo "ok $n - $2"
	else
		failed=1
		echo "not ok $n - $2"
		# And what an araxd said, where there is one.
		sed 's/^/# /' "$work/out" "$work/log" 2>/dev/null
	fi
}
