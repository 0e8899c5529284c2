#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The module's parameters: bad ones are refused, good ones hold and limit.  Runs in the
# guest, with the module loaded; loads it again at the end.

ko=/lib/arax/arax.ko
n=0 failed=0

check() {
	n=$((n + 1))
	if [ "$2" = "$3" ]; then
		echo "ok $n $1"
	else
		echo "not ok $n $1: '$3' instead of '$2'"
		failed=1
	fi
}

# try PARAMETER=VALUE: does the module load with it?
try() {
	if insmod $ko "$@" 2>/dev/null; then
		rmmod arax
		echo yes
	else
		echo no
	fi
}

# tells PROGRAM [TEST]: its output only if it fails, as it would be counted
tells() {
	if "$@" >/tmp/params.out; then
		echo passes
	else
		sed 's/^/: /' /tmp/params.out
	fi
}

echo "1..17"
/root/unload.sh
check "nodes go with the module" no "$([ -e /dev/arax ] && echo yes || echo no)"
check "cells must be a power of two" no "$(try cells=100)"
check "cells has a least value" no "$(try cells=128)"
check "cells has a greatest value" no "$(try cells=2097152)"
check "slots has a least value" no "$(try slots=1)"
check "slots has a greatest value" no "$(try slots=1048577)"
check "max_handles must not be 0" no "$(try max_handles=0)"
check "max_handles has a greatest value" no "$(try max_handles=1048576)"
check "a number must be one" no "$(try slots=many)"
check "small tables load" yes "$(try cells=256 slots=2 max_handles=1)"
insmod $ko user_memory=65536 recovery_ms=5
check "user_memory is as given" 65536 "$(cat /sys/module/arax/parameters/user_memory)"
check "recovery_ms is as given" 5 "$(cat /sys/module/arax/parameters/recovery_ms)"
# Nobody has ever been attached: who waits for the first one waits as long as it takes.
check "tasks wait for the first daemon" passes \
	"$(tells /root/death tasks_wait_for_the_first_mediator)"
check "a full table of kernels says so" passes "$(tells /root/full)"
/root/unload.sh
insmod $ko slots=4 max_handles=8 user_memory=65536 user_tasks=10 user_contexts=3 recovery_ms=300
check "each limit is one" passes \
	"$(tells /root/limits user_contexts user_memory user_tasks max_handles slots recovery_ms)"
/root/unload.sh
insmod $ko cells=256 slots=1024 user_tasks=1000
check "the dispatch ring has its cells" passes "$(tells /root/limits cells)"
/root/unload.sh
insmod $ko
check "nodes come with the module" yes "$([ -c /dev/arax ] && [ -c /dev/arax-ctl ] && echo yes)"
exit $failed
