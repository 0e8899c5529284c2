#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The runner must not believe a guest that failed.

set -euo pipefail

top=$(cd "$(dirname "$0")/../.." && pwd)
kernel=${1:-6.1}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
n=0 bad=0

check() {
	n=$((n + 1))
	if [ "$2" = 0 ]; then
		echo "ok $n $1"
	else
		echo "not ok $n $1"
		sed 's/^/# /' "$work/log"
		bad=1
	fi
}

# guest WANTED-STATUS REGEX NAME -- ARGS...: run, compare status and summary
guest() {
	local want=$1 regex=$2 name=$3 rc=0
	shift 3
	"$top/scripts/qemu-run" --kernel "$kernel" --timeout 300 "$@" >"$work/log" 2>&1 || rc=$?
	if [ "$rc" = "$want" ] && grep -Eq -- "$regex" "$work/log"; then
		check "$name" 0
	else
		echo "# exit status $rc, wanted $want and /$regex/"
		check "$name" 1
	fi
}

mkdir -p "$work/out"
# The first guest passes, or none of the others proves a thing.
guest 0 'qemu-run: .*: 4 ok, 0 not ok, 4 skipped$' 'a guest that passes' \
	--out "/tmp/out:$work/out" -- 'echo 1..2; echo ok 1 a; echo "ok 2 b # SKIP none"' \
	'mkdir /tmp/out; echo 42 >/tmp/out/x' 'exit 4' true \
	'echo ok 1; exit 4' 'echo "1..0 # SKIP none"'
check 'a file comes back' "$([ "$(cat "$work/out/x" 2>/dev/null)" = 42 ] && echo 0 || echo 1)"

# One guest, many ways to fail: all of them are counted, none stops the rest.
guest 1 ': 5 ok, 9 not ok, 0 skipped: 9 of 10 commands failed' 'commands that fail' \
	-- 'exit 3' 'echo ok 1; echo not ok 2 b; echo ok 3' 'echo 1..3; echo ok 1; echo ok 2' \
	'kill -9 $$' '@1 sleep 60' 'echo Bail out!; exit 0' /nonexistent 'echo 1..0' \
	'echo not ok 1; exit 4' 'echo ok 1 last'

# Text on the console, or from a test, is not a verdict.
forge='T 0123 commands=1 failed=0 ok=1 notok=0 skip=0 faults=0'
guest 1 'ended without its token' 'a forged token does not count' \
	-- "echo '$forge'; echo '$forge' >/dev/console; echo '$forge' >/dev/kmsg; sleep 1; reboot -f; sleep 9"
# shellcheck disable=SC2016 # for the guest's shell to expand
guest 0 ': 1 ok, 0 not ok' 'the result port and the token are out of reach' -- \
	'cd /sys/class/virtio-ports; p=$(grep -l arax.result */name); ! echo x >/dev/${p%/name} && [ ! -e /etc/arax-token ]'
guest 1 'the kernel panicked' 'a kernel that crashes' -- 'echo c >/proc/sysrq-trigger; sleep 30'
# As of KASAN, whose report is twice as long as what is shown else.
# shellcheck disable=SC2016 # for the guest's shell to expand
guest 1 '^# \| .*BUG: far above' 'what it complained of first is shown' -- \
	'echo on >/proc/sys/kernel/printk_devkmsg; say() { echo "<2>$*" >/dev/kmsg; }; say BUG: far above; for i in $(seq 80); do say $i; done; echo c >/proc/sysrq-trigger; sleep 30'
guest 1 '1 faults' 'a tainted kernel' -- 'echo 64 >/proc/sys/kernel/tainted'
# Whoever waits for a guest sees how far it is, if it gets to look before the end.
for seconds in 5 20 80; do
	"$top/scripts/qemu-run" --kernel "$kernel" --timeout 300 -- "echo early; sleep $seconds" \
		>"$work/log" 2>&1 &
	until grep -qx early "$work/log" || ! kill -0 $! 2>/dev/null; do
		sleep 0.2
	done
	early=0 rc=0
	! grep -q '^qemu-run:' "$work/log" || early=1
	wait $! || rc=1
	[ $early = 1 ] || break
done
check 'output comes before the end' "$early"
check 'and then the end' "$rc"
guest 124 'no end after 8 s' 'a guest that hangs' --timeout 8 -- 'sleep 60'
guest 2 'no kernel in' 'a kernel that is not there' --kernel none -- true

# Which emulator: a copy of the script has a build folder of its own.
mkdir -p "$work/scripts" "$work/bin"
cp "$top/scripts/qemu-get" "$top/scripts/debian-apt" "$work/scripts/"
emulator() {
	printf '#!/bin/sh\necho "QEMU emulator version %s"\n' "$1" >"$work/bin/qemu-system-x86_64"
	printf '#!/bin/sh\nexit 100\n' >"$work/bin/apt-get"
	chmod +x "$work"/bin/*
	PATH=$work/bin:$PATH "$work/scripts/qemu-get" --print 2>"$work/log" | tr '\n' ' '
}
check 'a QEMU that is new enough is taken' \
	"$([ "$(emulator 8.2.0)" = 'qemu-system-x86_64 -accel tcg,thread=multi ' ] && echo 0 || echo 1)"
check 'an old one with no other to be had runs the CPUs in turns' \
	"$([ "$(emulator 8.1.5)" = 'qemu-system-x86_64 -accel tcg,thread=single ' ] &&
		grep -q 'CPUs in turns' "$work/log" && echo 0 || echo 1)"

# KVM is believed when a kernel came to its end by it, and asked once for each kernel.
cp "$top/scripts/qemu-kvm" "$work/scripts/"
touch "$work/node"
# kvm KERNEL STATUS LAST-WORDS [NODE]: what qemu-kvm makes of a guest like that; asked counts its boots
kvm() {
	mkdir -p "$work/$1"
	echo "$1" >"$work/$1/vmlinuz"
	cat >"$work/bin/qemu-system-x86_64" <<-END
		#!/bin/sh
		echo >>"$work/asked"
		for arg; do case \$arg in file:*) echo "$3" >"\${arg#file:}" ;; esac; done
		exit $2
	END
	env -u ARAX_KVM PATH="$work/bin:$PATH" "$work/scripts/qemu-kvm" \
		--node "${4:-$work/node}" "$work/$1" 2>"$work/log"
}
asked() {
	wc -l <"$work/asked"
}
words='Kernel panic - not syncing: VFS: Unable to mount root fs'
check 'KVM that brings a kernel up is used' "$(kvm up 0 "$words" && echo 0 || echo 1)"
check 'and not asked again' "$(kvm up 1 '' && [ "$(asked)" = 1 ] && echo 0 || echo 1)"
check 'but for another kernel' "$(! kvm reset 0 '' && [ "$(asked)" = 2 ] && echo 0 || echo 1)"
check 'KVM in which a kernel hangs is not used' \
	"$(! kvm hangs 124 'early words' && grep -q 'status 124, 1 lines' "$work/log" && echo 0 || echo 1)"
check 'and not asked again, either' "$(! kvm hangs 0 "$words" && [ "$(asked)" = 3 ] && echo 0 || echo 1)"
check 'no device, no KVM' \
	"$(! kvm up 0 "$words" "$work/none" && grep -q 'none is not there' "$work/log" && echo 0 || echo 1)"

echo "1..$n"
exit "$bad"
