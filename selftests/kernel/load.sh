#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Loads and unloads the module again and again, with use in between.  Runs in
# the guest; arguments: rounds, and a program with its test.
# usage: load.sh ROUNDS PROGRAM TEST

rounds=$1
program=$2
test=$3
ko=/lib/arax/arax.ko

# A test's last files are closed a little after it.
unload() {
	for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		rmmod arax 2>/dev/null && return 0
		sleep 0.1
	done
	rmmod arax
}

echo "1..1"
round=0
while [ "$round" -lt "$rounds" ]; do
	round=$((round + 1))
	if ! unload || ! insmod $ko || [ ! -c /dev/arax ]; then
		echo "not ok 1 $rounds loads # round $round"
		exit 1
	fi
	if ! "$program" "$test" >/tmp/load.out; then
		cat /tmp/load.out
		echo "not ok 1 $rounds loads # round $round: $test"
		exit 1
	fi
done
echo "ok 1 $rounds loads"
