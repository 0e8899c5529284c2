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

echo "1..1"
round=0
while [ "$round" -lt "$rounds" ]; do
	round=$((round + 1))
	if ! /root/unload.sh || ! insmod $ko || [ ! -c /dev/arax ]; then
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
