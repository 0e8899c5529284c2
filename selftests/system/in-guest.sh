#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Runs inside a guest, see guest.sh.
# usage: in-guest.sh system|32-bit TEST...|death|saved|commands|demo|shares|reasons|coherent TASKS|mapped|
#	huge|bench|aside TEST|checked TEST...|loss BYTES|last-loss BYTES|overlap|followers AFTER TEST|planned|
#	group

set -u
export LD_LIBRARY_PATH=/arax/lib ARAX_LINK=kernel
config=/tmp/araxd.conf
echo 'kernels { path = { "/arax/kernels" } }' >$config
chmod 644 $config
araxd="/arax/bin/araxd --config $config --no-broker"

# serve ARAXD...: it is ready when this returns
serve() {
	ready=$(mktemp -u /tmp/ready-XXXXXX)
	mkfifo "$ready"
	# A reader is there before araxd may write and close it.
	exec 6<>"$ready"
	exec 5<"$ready"
	"$@" --ready-fd 9 9>&6 6>&- 5<&- 2>/tmp/log &
	daemon=$!
	exec 6>&-
	head -c 1 <&5 >/dev/null
	exec 5<&-
}

# finish STATUS [COMMAND...]: it must have survived all tests, and end cleanly; so does the command then
finish() {
	rc=$1
	shift
	kill $daemon || rc=1
	wait $daemon || rc=1
	[ $# = 0 ] || "$@" || rc=1
	[ "$rc" = 0 ] || sed 's/^/# /' /tmp/log
	exit "$rc"
}

# Of cgroup2, where no file has a size.
empty() { [ -z "$(cat "$1")" ]; }

# over CONFIGURATION PROGRAM [TEST...]: against an araxd of their own
over() {
	echo "$1" >>$config
	program=/arax/tests/$2
	shift 2
	# shellcheck disable=SC2086 # the command is words
	serve $araxd
	TAP_UID=1000 "$program" "$@"
	finish $?
}

case "$1" in
system)
	# For tests that have memory of these drivers.
	chmod 666 /dev/udmabuf /dev/dma_heap/system 2>/dev/null
	# shellcheck disable=SC2086 # the command is words
	serve $araxd
	TAP_UID=1000 /arax/tests/system
	finish $?
	;;
32-bit)
	shift
	chmod 666 /dev/udmabuf /dev/dma_heap/system 2>/dev/null
	# shellcheck disable=SC2086 # the command is words
	serve $araxd
	TAP_UID=1000 /arax/tests/system32 "$@"
	finish $?
	;;
death)
	export ARAX_TEST_DAEMON="$araxd --log-level warning"
	exec /arax/tests/daemon-death
	;;
aside)
	export ARAX_TEST_THREADS=16
	echo "cpu { groups = { \"0\" } } worker { timeout_ms = 0 threads = $ARAX_TEST_THREADS
		cgroup = \"/sys/fs/cgroup/arax-workers\" }" >>$config
	# shellcheck disable=SC2086 # the command is words
	serve $araxd
	shift
	/arax/tests/stand-aside "$@"
	# Or nobody could enter it while its process is there still.
	finish $? empty /sys/fs/cgroup/arax-workers/cgroup.subtree_control
	;;
shares)
	export ARAX_TEST_ARAX=/arax/bin/arax
	echo 'cpu { groups = { "0" } }' >>$config
	# shellcheck disable=SC2086 # the command is words
	serve $araxd
	/arax/tests/shares
	finish $?
	;;
reasons)
	echo 'cpu { groups = { "0" } memory = "2M" }' >>$config
	# shellcheck disable=SC2086 # the command is words
	serve $araxd
	/arax/tests/reasons
	finish $?
	;;
coherent)
	export ARAX_TEST_TASKS="$2"
	echo 'sched { policy = "rr" } cpu { groups = { "0" } } backend "sim" { options = { "devices=2",
		"memory=1048576", "ns-per-item=0.1", "base-us=1", "latency-us=1" } }' >>$config
	# shellcheck disable=SC2086 # the command is words
	serve $araxd
	TAP_UID=1000 /arax/tests/coherent
	finish $?
	;;
mapped)
	chmod 666 /dev/borrower
	# shellcheck disable=SC3045 # busybox has it
	ulimit -n 512
	# shellcheck disable=SC2086 # the command is words
	serve $araxd
	TAP_UID=1000 /arax/tests/many-mapped
	finish $?
	;;
huge)
	# The broker link's buffers: the module's are its own.
	echo advise >/sys/kernel/mm/transparent_hugepage/shmem_enabled || exit 4
	echo 1 >/proc/sys/vm/compact_memory
	serve /arax/bin/araxd --config $config --no-kernel --socket /tmp/arax.sock
	ARAX_LINK=broker:/tmp/arax.sock /arax/tests/huge-pages
	finish $?
	;;
bench)
	# For a moment, and no figure is judged; guest.sh looks at what they say.
	mkdir -p /tmp/bench
	serve /arax/bin/araxd --kernels /arax/lib/arax/bench-kernels --no-broker
	rc=0
	for name in null depth; do
		ARAX_BENCH_PID=$daemon /arax/bin/arax-bench $name --link kernel --json \
			--seconds 0.3 --rounds 2 >/tmp/bench/kernel-$name.json || rc=1
	done
	finish $rc
	;;
checked)
	shift
	chmod 666 /dev/udmabuf /dev/dma_heap/system 2>/dev/null
	export ARAX_TEST_CHECKED=1
	over 'cpu { memory = "32M" } debug { check_access = true }' system "$@"
	;;
loss)
	over "cpu { memory = \"$2\" groups = { \"0\", \"1\" } }
		filter \"error\" { devices = \"cpu1\" options = { \"errno=ENODEV\", \"kernel=st_lies\" } }" \
		device-loss one_of_two_is_lost
	;;
last-loss)
	over "cpu { memory = \"$2\" groups = { \"0\" } }
		filter \"error\" { options = { \"errno=ENODEV\", \"kernel=st_fail\" } }" \
		device-loss the_only_one_is_lost
	;;
overlap)
	over 'cpu { groups = { "0", "1" } }
		filter "error" { devices = "cpu1" options = { "errno=ENODEV", "kernel=st_lies" } }' \
		device-loss what_reads_its_own_results_does_not_run_again
	;;
followers)
	over "loop { inline_us = 0 } cpu { groups = { \"0\" } }
		filter \"delay\" { devices = \"cpu0\" options = { \"run-ms=10\" } }
		backend \"queued\" { file = \"/arax/lib/queued.so\"
		options = { \"follows=true\", \"lose=$2\" } }" device-loss "$3"
	;;
planned)
	over 'cpu { groups = { "0" } } filter "delay" { devices = "cpu0" options = { "run-ms=1" } }
		backend "sim" { options = { "devices=2", "memory=33554432", "ns-per-item=0.1",
		"base-us=4000", "latency-us=1" } }' planned
	;;
group)
	# But for copies of 512 MiB.
	over 'cpu { groups = { "0-1" } }' one-group it_has_a_lane_for_each_cpu tasks_have_a_cpu_each \
		split_beside_a_long_one split_ones_at_once
	;;
saved)
	# shellcheck disable=SC2086 # the command is words
	exec /arax/tests/saved.sh /arax/bin/arax $araxd
	;;
commands)
	# shellcheck disable=SC2086 # the command is words
	exec /arax/tests/commands.sh kernel /arax/bin/arax /arax/tests/told $araxd
	;;
demo)
	export PATH="/arax/bin:$PATH"
	exec /bin/bash /arax/tree/selftests/system/demo.sh
	;;
esac
exit 2
