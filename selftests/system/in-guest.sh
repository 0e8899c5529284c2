#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Runs inside a guest, see guest.sh.
# usage: in-guest.sh system|death|saved|huge|aside TEST

set -u
export LD_LIBRARY_PATH=/arax/lib ARAX_LINK=kernel
config=/tmp/araxd.conf
echo 'kernels { path = { "/arax/kernels" } }' >$config
chmod 644 $config
araxd="/arax/bin/araxd --config $config --no-broker"

case "$1" in
system)
	# araxd must survive all tests and then end cleanly.
	mkfifo /tmp/ready
	$araxd --ready-fd 9 9<>/tmp/ready 2>/tmp/log &
	daemon=$!
	head -c 1 /tmp/ready >/dev/null
	TAP_UID=1000 /arax/tests/system
	rc=$?
	kill $daemon || rc=1
	wait $daemon || rc=1
	[ $rc = 0 ] || sed 's/^/# /' /tmp/log
	exit $rc
	;;
death)
	export ARAX_TEST_DAEMON="$araxd --log-level warning"
	exec /arax/tests/daemon-death
	;;
aside)
	export ARAX_TEST_THREADS=16
	echo "cpu { groups = { \"0\" } } worker { timeout_ms = 0 threads = $ARAX_TEST_THREADS
		cgroup = \"/sys/fs/cgroup/arax-workers\" }" >>$config
	mkfifo "/tmp/ready-$2"
	$araxd --ready-fd 9 9<>"/tmp/ready-$2" 2>/tmp/log &
	daemon=$!
	head -c 1 "/tmp/ready-$2" >/dev/null
	/arax/tests/stand-aside "$2"
	rc=$?
	kill $daemon || rc=1
	wait $daemon || rc=1
	[ $rc = 0 ] || sed 's/^/# /' /tmp/log
	exit $rc
	;;
huge)
	# The broker link's buffers: the module's are its own.
	echo advise >/sys/kernel/mm/transparent_hugepage/shmem_enabled || exit 4
	echo 1 >/proc/sys/vm/compact_memory
	mkfifo /tmp/ready-huge
	/arax/bin/araxd --config $config --no-kernel --socket /tmp/arax.sock --ready-fd 9 \
		9<>/tmp/ready-huge 2>/tmp/log &
	daemon=$!
	head -c 1 /tmp/ready-huge >/dev/null
	ARAX_LINK=broker:/tmp/arax.sock /arax/tests/huge-pages
	rc=$?
	kill $daemon || rc=1
	wait $daemon || rc=1
	[ $rc = 0 ] || sed 's/^/# /' /tmp/log
	exit $rc
	;;
saved)
	# shellcheck disable=SC2086 # the command is words
	exec /arax/tests/saved.sh /arax/bin/arax $araxd
	;;
esac
exit 2
