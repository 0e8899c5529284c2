#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The whole stack over the broker link, from outside: a private araxd, and the
# same test programs that the guests run over /dev/arax (see guest.sh).
# usage: selftests/system/run.sh [coherent|coherent-cuda|coherent-emulated]: all, or that alone

set -euo pipefail

cd "$(dirname "$0")/../.."
tests=$PWD/build/selftests/system
work=$(mktemp -d /tmp/arax-system.XXXXXX)
daemon=
others=()
cleanup() {
	for one; do
		kill "$one" 2>/dev/null || true
		wait "$one" 2>/dev/null || true
	done
	rm -rf "$work"
}
# shellcheck disable=SC2086 # one, or none
trap 'cleanup $daemon ${others[@]+"${others[@]}"}' EXIT

kernels=$work/kernels
mkdir "$kernels"
cp build/lib/arax/kernels/arax-std[.-]* "$tests"/kernels/* "$kernels/"
chmod -R go-w "$work"
status=0

# at FOLDER: an araxd has its files, its socket and what it learns there
at() {
	work=$1
	export XDG_STATE_HOME=$work ARAX_LINK=broker:$work/arax.sock
	araxd="${ARAXD:-build/bin/araxd} --user --no-kernel --config $work/araxd.conf --socket $work/arax.sock"
}
at "$work"

configure() {
	{ echo "kernels { path = { \"$kernels\" } }"; echo "$1"; } >"$work/araxd.conf"
}

# counted PATTERN LOOKS: araxd says so in its log, if it is asked for its counts
counted() {
	local looks

	! grep -q "$1" "$work/log" || return 0
	kill -USR1 "$daemon"
	for ((looks = 0; looks < $2; looks++)); do
		sleep 0.1
		! grep -q "$1" "$work/log" || return 0
	done
	return 1
}

# system TALLY CONFIGURATION [PROGRAM TEST...]: tests against an araxd of their own, whose log has a
# line with LOGGED, after so many runs more as AGAIN says; if there is LOGGED_WITH, a kind, where it
# has such devices
system() {
	local before=$status ready again

	configure "$2"
	rm -f "$work/ready"
	mkfifo "$work/ready"
	exec {ready}<>"$work/ready"
	# shellcheck disable=SC2086 # the command is words
	$araxd --ready-fd "$ready" 2>"$work/log" &
	daemon=$!
	if ! read -r -t 60 -n 1 -u "$ready" _; then
		echo "araxd did not become ready:" >&2
		cat "$work/log" >&2
		exit 1
	fi
	exec {ready}>&-
	"$tests/${3-system}" "${@:4}" | tee "$work/tap" | scripts/tally tap "$1" || status=1
	if ! kill -0 "$daemon" 2>/dev/null; then
		echo "araxd died:" >&2
		status=1
	fi
	[ $status = "$before" ] || tail -n 40 "$work/log" >&2
	# With a sanitizer in it its timing is another; and what was skipped it has nothing to say of.
	if [ -n "${LOGGED-}" ] && [ -z "${ARAXD-}" ] && grep '^ok' "$work/tap" | grep -qv '# SKIP' &&
	   build/bin/arax devices --json | grep -q "\"${LOGGED_WITH-}"; then
		# What araxd only does where others leave it the core may not come at the first try.
		for ((again = ${AGAIN-0}; again > 0; again--)); do
			! counted "$LOGGED" 20 || break
			"$tests/${3-system}" "${@:4}" >"$work/tap" || status=1
		done
		counted "$LOGGED" 600 || { echo "araxd didn't say $LOGGED" >&2; status=1; }
	fi
	kill "$daemon" 2>/dev/null || true
	wait "$daemon" || { echo "araxd did not end cleanly:" >&2; tail -n 100 "$work/log" >&2; status=1; }
	daemon=
}

# beside ARGUMENT...: the same, and what comes next does not wait for it.  All of "system" is idle for
# more than half of its time, and has no test that a busy machine fails.
beside() {
	(
		at "$work/${1##*/}"
		mkdir "$work"
		# shellcheck disable=SC2086 # one, or none
		trap 'cleanup $daemon' EXIT
		system "$@"
		exit $status
	) &
	others+=($!)
}

# join: until those have ended
join() {
	for one in ${others[@]+"${others[@]}"}; do
		wait "$one" || status=1
	done
	others=()
}

# has TALLY KIND OPTIONS: there are devices of that kind; else $why not, and it counts as skipped
has() {
	configure "cpu { enable = false } backend \"$2\" { options = { $3 } }"
	! build/bin/arax run --config "$work/araxd.conf" true >/dev/null 2>"$work/why" || return 0
	why=$(sed -n 's/.*reason="\(.*\)"$/\1/p' "$work/why" | head -n 1)
	why="$2: ${why:-$(tail -n 1 "$work/why")}"
	without "$1" "$why"
}
skipped=()
without() {
	echo "# $1 is skipped: $2"
	scripts/tally add "$1" 0 0 1 "$2"
	skipped+=("$1")
	return 1
}

# What is compiled for CUDA is there.
has_ptx() {
	grep -q systest.ptx "$kernels/systest.json" || without "$1" 'no nvcc, so that systest has no kernels for CUDA'
}

# coherent_on TALLY LOGGED KIND OPTIONS [CPU]: such devices by turns, beside a core; kernels have flat
# ranges there
coherent_on() {
	local core='groups = { "0" }'

	AGAIN=10 LOGGED=$2 ARAX_TEST_FLAT=1 beside "$1" "sched { policy = \"rr\" } cpu { ${5-$core} }
		backend \"$3\" { options = { $4 } }" coherent
}

# On a driver in software, also where its contexts break now and then, and calls fail: what was there
# alone is lost; and where kernels break the driver for araxd, which goes on in other processes.
coherent_emulated() {
	local plain=${ARAX_TEST_CUDA-$PWD/build/test/plain/libcuda-emulated.so} driver name=system/coherent-emulated small part fails

	driver=$plain
	case ${ARAXD-} in
	*/asan/araxd | */tsan/araxd) driver=${plain/plain/$(basename "$(dirname "$ARAXD")")} ;;
	esac
	small='"memory=1M"'
	for part in '' -behind -behind-fails -behind-lost -lost -apart; do
		# In arax-device there is no sanitizer.
		[ "$part" != -apart ] || driver=$plain
		if [ ! -e "$driver" ]; then
			without $name$part "there is no $driver: make test-system and the like build it, if there are CUDA's headers" ||
				continue
		fi
		has_ptx $name$part || continue
		case $part in
		'')
			EMULATED_DEVICES=2 EMULATED_SLOW=1000 EMULATED_LATE=300 EMULATED_STRICT=1 \
				coherent_on $name "$evicted" cuda "\"library=$driver\", $small" ;;
		-behind*)
			# On one lane: what a task needs is by others that are on it still, and may not get there.
			fails=
			case $part in
			*-fails) fails='ARAX_TEST_FAILS=1 ARAX_TEST_LOST=1 EMULATED_FAIL=copy:29:999' ;;
			*-lost) fails='ARAX_TEST_FAILS=1 ARAX_TEST_LOST=1 EMULATED_FAULT=500:214:1000000:200' ;;
			esac
			# shellcheck disable=SC2086,SC2163 # words, and names with their values
			(
				others=()
				[ -z "$fails" ] || export $fails
				export ARAX_TEST_NARROW=1 EMULATED_DEVICES=1
				export EMULATED_SLOW=1000 EMULATED_LATE=300 EMULATED_STRICT=1
				coherent_on $name$part 'behind=[1-9][0-9]' cuda \
					"\"library=$driver\", \"follow=yes\", \"lanes=1\", \"memory=2M\"" 'enable = false'
				join
				exit $status
			) || status=1 ;;
		-lost)
			EMULATED_DEVICES=2 EMULATED_FAULT=500:214:1000000:700 \
				EMULATED_FAIL=alloc:31:2,copy:301:999,launch:101:999,end:411:999 \
				ARAX_TEST_FAILS=1 ARAX_TEST_LOST=1 \
				coherent_on $name$part 'device is back device="cuda1' cuda \
				"\"library=$driver\", $small" ;;
		-apart)
			# arax-device has no sanitizer in it; and takes its time.
			ARAX_TEST_TASKS=$((${ARAX_TEST_TASKS-6000} / 2)) ARAX_TEST_FAULTS=1 \
				EMULATED_DEVICES=2 EMULATED_FAULT=500:700:1000000:700 EMULATED_SHARED=$work/shared \
				coherent_on $name$part 'goes on in a process of its own' \
				cuda "\"library=$plain\", $small" 'enable = false' ;;
		esac
	done
}

# On hardware.
coherent_cuda() {
	if has_ptx system/coherent-cuda && has system/coherent-cuda cuda '"memory=2M"'; then
		coherent_on system/coherent-cuda "$evicted" cuda '"memory=2M"'
		ARAX_TEST_NARROW=1 coherent_on system/coherent-cuda-behind 'behind=[1-9][0-9][0-9]' cuda \
			'"follow=yes", "lanes=1", "memory=2M"' 'enable = false'
	fi
	join
}

# Never a wrong byte on devices that are too small for what is in use, beside cores that work in place
# or on copies, too; where some fail tasks, and one goes, nothing else is wrong for that.
evicted='device memory device=1 .* evictions=[1-9][0-9]'
coherent() {
	local small='"devices=2", "memory=1048576", "ns-per-item=0.1", "base-us=1", "latency-us=1"'

	LOGGED=$evicted beside system/coherent "sched { policy = \"rr\" }
		cpu { groups = { \"0\" } } backend \"sim\" { options = { $small } }" coherent
	AGAIN=10 LOGGED='device is lost device=sim1' ARAX_TEST_FAILS=1 ARAX_TEST_LOST=1 beside system/coherent-lost "cpu { groups = { \"0\" } }
		sched { policy = \"rr\" } backend \"sim\" { options = { $small, \"fail=0.01\", \"lose=1:400\" } }" coherent
	# Of one program, some of whose tasks nothing is before: the core has those past the graph.
	AGAIN=10 LOGGED=' lone=[1-9][0-9][0-9]' ARAX_TEST_NARROW=1 beside system/coherent-narrow "cpu { groups = { \"0\" } }
		backend \"sim\" { options = { ${small/1048576/8388608} } }" coherent
	join
	LOGGED='device memory device=0 .* evictions=[1-9][0-9]' beside system/coherent-copies "cpu { memory = \"1M\" }
		backend \"sim\" { options = { $small } }" coherent
	coherent_emulated
	join
	if has system/coherent-opencl opencl '"zero-copy=no"'; then
		coherent_on system/coherent-opencl "$evicted" opencl '"zero-copy=no", "memory=1M"'
		coherent_on system/coherent-opencl-in-place 'followed=[1-9]' opencl '' 'enable = false'
	else
		without system/coherent-opencl-in-place "$why" || :
	fi
	join
	coherent_cuda
}

case ${1-} in
coherent | coherent-cuda | coherent-emulated)
	"${1/-/_}"
	join
	# Of what runs nothing is said, unless it fails.
	[ ${#skipped[@]} -eq 0 ] || echo "# ${#skipped[@]} skipped: ${skipped[*]}"
	exit $status
	;;
esac

# Who wrote where it said that it only reads is named.
lie='kernel wrote to a range that it declares as in.* kernel=st_lies range=0 '
ARAX_TEST_CHECKED=1 LOGGED=$lie beside system/broker-checked 'debug { check_access = true }'
# ... and who left out what it said that it writes.
left='kernel left out bytes of a range that it declares as out.* kernel=st_clock range=0 .* offset=8 bytes=4088 of=4096 '
for memory in 0 32M; do
	LOGGED=$left system system/unwritten-$memory "cpu { memory = \"$memory\" } debug { check_access = true }" \
		system out_keeps_what_is_left_out
done
# On devices with memory of their own, too small for what some tests use.
system system/broker-own-memory 'cpu { memory = "32M" }'
join
# What one of them wrote alone another one has from it, and not by way of the host.
LOGGED='device memory device=1 .* copied_peer=[1-9]' system system/broker-peers \
	'cpu { memory = "32M" groups = { "0", "1" } } sched { policy = "rr" }' system explicit_chain
ARAX_TEST_CHECKED=1 LOGGED=$lie beside system/broker-checked-copies \
	'cpu { memory = "32M" } debug { check_access = true }'
# A device goes after some launches; on copies nothing is lost with it, but for results
# that are kept there.
ARAX_TEST_LOST=1 system system/broker-lost 'cpu { memory = "32M" groups = { "0", "1" } }
	filter "error" { devices = "cpu1" options = { "errno=ENODEV", "every=7" } }'
# ... and, on both in turn, in the midst of what is asked for at once.
for every in 12 23; do
	ARAX_TEST_LOST=1 LOGGED='device is lost device=cpu1' system "system/broker-lost-$every" 'cpu { memory = "32M" groups = { "0", "1" } }
		sched { policy = "rr" }
		filter "error" { devices = "cpu1" options = { "errno=ENODEV", "every='$every'" } }' \
		system explicit_results_at_once
done
join
for memory in 0 32M; do
	system system/device-loss-$memory "cpu { memory = \"$memory\" groups = { \"0\", \"1\" } }
		filter \"error\" { devices = \"cpu1\" options = { \"errno=ENODEV\", \"kernel=st_lies\" } }" \
		device-loss one_of_two_is_lost
	system system/last-device-loss-$memory "cpu { memory = \"$memory\" groups = { \"0\" } }
		filter \"error\" { options = { \"errno=ENODEV\", \"kernel=st_fail\" } }" \
		device-loss the_only_one_is_lost
done
system system/device-loss-overlap 'cpu { groups = { "0", "1" } }
	filter "error" { devices = "cpu1" options = { "errno=ENODEV", "kernel=st_lies" } }' \
	device-loss what_reads_its_own_results_does_not_run_again
# One that takes tasks before those have ended that they wait for; it has nothing of its own that
# would be lost with it.
for after in 30 60 90; do
	for one in who_was_to_follow_comes_after_what_runs_again who_was_to_follow_is_canceled; do
		LOGGED='followed=[1-9]' system system/device-loss-followers-$after-$one "loop { inline_us = 0 }
			cpu { groups = { \"0\" } } filter \"delay\" { devices = \"cpu0\" options = { \"run-ms=10\" } }
			backend \"queued\" { file = \"$PWD/build/test/plugins/queued.so\"
			options = { \"follows=true\", \"lose=$after\" } }" device-loss "$one"
	done
done
# Results that stay on the device: it is lost in the midst of a task, the 20th, all of
# which are on the first one, or between two tasks, which go to both in turn.
system system/loss-in-a-task 'cpu { memory = "32M" groups = { "0", "1" } } sched { policy = "static" }
	filter "error" { devices = "cpu0" options = { "errno=ENODEV", "every=20" } }' \
	device-loss never_an_older_byte
system system/loss-between-tasks 'cpu { enable = false } sched { policy = "rr" }
	backend "sim" { options = { "devices=2", "memory=33554432", "ns-per-item=0.1", "base-us=1",
	"latency-us=1", "lose=1:500" } }' device-loss never_an_older_byte
# It can't be rebuilt: what it had alone is lost until somebody writes it.  That must be there by
# then, or it is lost later.
for ms in 4000 8000 16000; do
	LOGGED='memory of a lost device is given up device=sim1' ARAX_TEST_LOST_MS=$ms \
		system system/loss-for-good 'cpu { enable = false } sched { policy = "rr" }
		backend "sim" { options = { "devices=2", "memory=33554432", "ns-per-item=0.1",
		"base-us=1", "latency-us=1", "lose=1:'$ms'" } }' device-loss lost_bytes_are_written_anew
	grep -q '^ok.*# SKIP' "$work/tap" || break
done
coherent
# On simulated ones, beside cores that work on the pages in place.
sim='backend "sim" { options = { "devices=4", "links=2", "memory=33554432",
	"ns-per-item=0.1", "base-us=1", "latency-us=1" } }'
beside system/broker-sim-mixed "cpu { groups = { \"0\" } } $sim"
# One device with several lanes, as a node of a larger machine is.
if [ "$(nproc)" -gt 1 ]; then
	beside system/broker-group 'cpu { groups = { "0-1" } }'
fi
system system/broker ''
join
# A program that is alone where one device is quicker than the others is planned.
AGAIN=10 LOGGED='plans=[1-9]' system system/planned 'cpu { groups = { "0" } }
	filter "delay" { devices = "cpu0" options = { "run-ms=1" } }
	backend "sim" { options = { "devices=2", "memory=33554432", "ns-per-item=0.1",
	"base-us=4000", "latency-us=1" } }' planned
if [ "$(nproc)" -gt 1 ]; then
	system system/one-group 'cpu { groups = { "0-1" } }' one-group
else
	scripts/tally add system/broker-group 0 0 1 'one CPU'
	scripts/tally add system/one-group 0 0 1 'one CPU'
fi

# Who has which part of a device's time.
system system/shares 'cpu { groups = { "0" } }' shares

# Kernels without end, of programs' own, and others who want the same core.
system system/stand-aside 'cpu { groups = { "0" } } worker { timeout_ms = 0 }' stand-aside

# None may stand aside: but what nobody waits for any more is ended.
system system/no-room-aside 'cpu { groups = { "0" } } worker { timeout_ms = 0 max = 1 }' \
	stand-aside killed_with_a_kernel_that_hangs killed_with_a_long_launch

# What programs bring for OpenCL's devices; and for two, of which one may run what is built for
# the other.  Mostly a compiler, on one processor each.
beside system/own-opencl 'backend "opencl" { } worker { timeout_ms = 0 }' own-opencl
beside system/own-opencl-two 'cpu { groups = { "0" } } sched { policy = "rr" } worker { timeout_ms = 0 }
	backend "opencl" { options = { "sub-devices=2" } }' own-opencl
join
AGAIN=10 LOGGED='followed=[1-9]' LOGGED_WITH=opencl \
	system system/own-opencl-alone 'cpu { enable = false }
	backend "opencl" { }' own-opencl opencl_after_chains_that_failed

# Tasks that are started before what they wait for has ended; on its own memory that is up to
# the lane.
for copies in auto no; do
	AGAIN=10 LOGGED='followed=[1-9][0-9][0-9]' LOGGED_WITH=opencl \
		system system/followers-zero-copy-$copies 'cpu { enable = false }
		backend "opencl" { options = { "zero-copy='$copies'" } }' followers
done

# A program that is alone, and waits for each of its tasks, has them run by the poller.
AGAIN=10 LOGGED='inline=[1-9][0-9][0-9]' LOGGED_WITH=opencl \
	system system/alone-opencl 'cpu { enable = false }
	backend "opencl" { }' followers one_at_a_time
LOGGED='tasks=300 inline=0 ' LOGGED_WITH=opencl system system/alone-opencl-groups 'cpu { enable = false }
	backend "opencl" { }' followers groups_of_another_size_each_time
if [ "$(nproc)" -gt 1 ]; then
	AGAIN=10 LOGGED='stayed=[1-9]' LOGGED_WITH=opencl system system/alone-opencl-long 'cpu { enable = false }
		backend "opencl" { }' followers long_ones_one_at_a_time
	AGAIN=10 LOGGED='stayed=[1-9]' LOGGED_WITH=cpu system system/alone-cpu-long '' followers long_ones_one_at_a_time
else
	scripts/tally add system/alone-opencl-long 0 0 1 'one CPU'
	scripts/tally add system/alone-cpu-long 0 0 1 'one CPU'
fi

# Who owns a task that fails is told why, wherever it was to run.
system system/reasons-cpu 'cpu { groups = { "0" } }' reasons
system system/reasons-cpu-copies 'cpu { groups = { "0" } memory = "2M" }' reasons
for copies in auto no; do
	system system/reasons-zero-copy-$copies 'cpu { enable = false }
		backend "opencl" { options = { "zero-copy='$copies'", "memory=2M" } }' reasons
done

# Vendors' libraries are called on such a device in place of kernels.
for copies in auto no; do
	system system/vendors-zero-copy-$copies 'cpu { enable = false }
		backend "opencl" { options = { "zero-copy='$copies'" } }' vendors
	LOGGED='does not take a kernel' LOGGED_WITH=opencl system system/vendors-elsewhere-$copies 'loop { inline_us = 0 } cpu { groups = { "0" } }
		sched { policy = "rr" }
		backend "opencl" { options = { "zero-copy='$copies'" } }' vendors another_device_takes_it and_finds_all_that_was_there
done

# What a failure takes with it is in the trace: which device it would have had is not.
plain=$araxd
araxd="$araxd --trace $work/trace.jsonl"
system system/broker-traced '' system one_call_dataflow
araxd="$plain --trace $work/chains.jsonl"
system system/followers-traced 'cpu { enable = false }
	backend "opencl" { }' followers a_chain_by_its_data
araxd=$plain
{
	echo 1..2
	python3 - "$work/trace.jsonl" "$work/chains.jsonl" <<'END' || status=1
import json, sys
tasks = [json.loads(line) for path in sys.argv[1:] for line in open(path)]
tags = {t["tag"] for t in tasks}
gone = [t for t in tasks if t["device"] == "none"]
good = gone and all(t["result"] == -125 and t["origin"] in tags for t in gone)
good = good and all(t["device"] == "none" for t in tasks if t["result"] == -125)
print("ok 1 - canceled tasks are in the trace, with their origin" if good else "not ok 1 - canceled")
sys.exit(not good)
END
	if build/bin/arax trace --json "$work/trace.jsonl" | grep '"device": "none"' >/dev/null &&
	   build/bin/arax trace --perfetto "$work/trace.jsonl" | grep '"cat":"ended"' >/dev/null &&
	   build/bin/arax trace --dot "$work/trace.jsonl" | grep dashed >/dev/null; then
		echo "ok 2 - and arax trace shows them"
	else
		echo "not ok 2 - arax trace shows them"
	fi
} | scripts/tally tap system/broker-trace || status=1

configure ''
export ARAX_TEST_DAEMON="$araxd"
"$tests/daemon-death" | scripts/tally tap system/broker-death || status=1

# shellcheck disable=SC2086 # the command is words
selftests/system/saved.sh build/bin/arax $araxd | scripts/tally tap system/broker-saved || status=1
selftests/system/unit.sh "${ARAXD:-build/bin/araxd}" | scripts/tally tap system/broker-unit || status=1
# shellcheck disable=SC2086 # the command is words
selftests/system/commands.sh broker build/bin/arax "$tests/told" $araxd |
	scripts/tally tap system/broker-commands || status=1
exit $status
