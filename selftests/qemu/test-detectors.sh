#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# A detector that is silently off passes everything: show that each one of the
# debug kernel fires, and that the runner hears it.

set -euo pipefail

top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cp "$top"/selftests/qemu/faulty/* "$work/"
make -s -C "$top/build/kernels/debug/build" M="$work" modules >"$work/make.log" 2>&1 ||
	{ cat "$work/make.log"; exit 1; }

n=0 bad=0
# expect NAME REGEX: the last guest's output has it
expect() {
	n=$((n + 1))
	if grep -Eq -- "$2" "$work/log"; then
		echo "ok $n $1"
	else
		echo "not ok $n $1: no /$2/"
		bad=1
	fi
}

# guest WANTED-STATUS FAULT...
guest() {
	local want=$1 rc=0 fault commands=()
	shift
	for fault; do
		commands+=("echo $fault >/sys/module/faulty/parameters/fault")
	done
	# kmemleak's scans take as long as there is memory.
	"$top/scripts/qemu-run" --kernel debug --mem 384M --timeout 900 --each 300 --module "$work/faulty.ko" \
		-- "${commands[@]}" >"$work/log" 2>&1 || rc=$?
	n=$((n + 1))
	if [ "$rc" = "$want" ]; then
		echo "ok $n the guest with: $*"
	else
		echo "not ok $n the guest with: $*: exit status $rc, wanted $want"
		bad=1
	fi
	[ $bad = 0 ] || sed 's/^/# /' "$work/log"
}

guest 0 none
guest 1 sleep rcu deadlock leak
expect 'sleeping in atomic context' '^# kernel: BUG: sleeping function called'
expect 'RCU without a read lock' '^# kernel: WARNING: suspicious RCU usage'
expect 'a lock order that can deadlock' '^# kernel: WARNING: possible circular locking'
expect 'lockdep turned off' '^# FAULT: lockdep has turned itself off'
expect 'memory that leaked' '^# FAULT: kmemleak found something'
expect 'the taint of a warning' '^# FAULT: the kernel is tainted'
guest 1 overflow
expect 'a write past the end' 'KASAN: slab-out-of-bounds'
expect 'and its panic' ': the kernel panicked'
guest 1 shift
expect 'a shift that is too wide' 'UBSAN: shift-out-of-bounds'
guest 1 dangling
expect 'freed memory that the kernel is given' 'KASAN: use-after-free'

echo "1..$n"
exit "$bad"
