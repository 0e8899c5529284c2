#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Emulated, not hardware: example programs on the cuda and hip backends over a driver in
# software (selftests/gpu-emulated), through araxd with all of its data's ways, give what
# they give on the CPU.  On real GPUs, where there are any, the same.

set -euo pipefail

cd "$(dirname "$0")/../.."
arax=$PWD/build/bin/arax
examples=$PWD/build/examples
tests=$PWD/build/selftests/system
work=$(mktemp -d /tmp/arax-gpu.XXXXXX)
trap 'rm -rf "$work"' EXIT
export XDG_STATE_HOME=$work

# shellcheck source=/dev/null
. selftests/system/served.sh

n=0
status=0
check() {
	local name=$1
	shift
	n=$((n + 1))
	if "$@" >"$work/out" 2>&1; then
		echo "ok $n - $name"
	else
		echo "not ok $n - $name"
		sed 's/^/# /' "$work/out"
		status=1
	fi
}
skip() {
	n=$((n + 1))
	echo "ok $n - $1 # SKIP $2"
}

# on KIND PROGRAM...: with the configuration $work/KIND.conf
on() {
	"$arax" run --config "$work/$1.conf" --kernels build/lib/arax/kernels \
		--kernels build/examples/kernels "${@:2}"
}

listed() {
	on "$1" "$arax" devices --json | python3 -c 'import json, sys
d = [x for x in json.load(sys.stdin) if x["online"]]
assert d and all(x["kind"] == sys.argv[1] and x["online"] and x["memory"] for x in d), d
' "$2"
}

# What NVML in software says of the first one; and of the memory what araxd has of it.
figures() {
	# shellcheck disable=SC2016 # the private araxd's shell
	on "$1" sh -c '"$1" >/dev/null && exec "$2" devices --json' - "$examples/quickstart" "$arax" |
		python3 -c 'import json, sys
d = [x for x in json.load(sys.stdin) if x["online"]]
assert d[0]["busy_percent"] == 10 and d[0]["power_w"] == 100 and d[0]["memory_taken"] == 3 << 20, d
assert all(0 <= x["memory_used"] <= x["memory"] for x in d), d
'
}

# Where it was computed and how long that took differ, and nothing else.
quickstart() {
	on cpu "$examples/quickstart" | sed 's/, computed.*//' >"$work/quick.cpu"
	on "$1" "$examples/quickstart" | sed 's/, computed.*//' >"$work/quick.$1"
	grep -q 'sum\[999999\] = 2999997' "$work/quick.$1" && cmp "$work/quick.cpu" "$work/quick.$1"
}

pipeline() {
	on cpu "$examples/image-pipeline" examples/data/rocket.jpg "$work/cpu.png"
	on "$1" "$examples/image-pipeline" examples/data/rocket.jpg "$work/$1.png"
	python3 selftests/system/same-picture.py "$work/cpu.png" "$work/$1.png" 1
}

# The same digits.
montecarlo() {
	on cpu "$examples/montecarlo" | grep -o 'pi is about [0-9.]*' >"$work/pi.cpu"
	on "$1" "$examples/montecarlo" | grep -o 'pi is about [0-9.]*' >"$work/pi.$1"
	cat "$work/pi.cpu" "$work/pi.$1"
	test -s "$work/pi.cpu" && cmp "$work/pi.cpu" "$work/pi.$1"
}

# An uncorrectable error of memory, which is no task's fault, on the only device.
rebuilt() {
	EMULATED_DEVICES=1 EMULATED_FAULT=3:214:1 pipeline "$1"
	EMULATED_DEVICES=1 EMULATED_FAULT=1:214:1 "$arax" run --verbose --config "$work/$1.conf" \
		--kernels build/lib/arax/kernels "$examples/quickstart" >"$work/log" 2>&1
	cat "$work/log"
	grep -q 'sum\[999999\] = 2999997' "$work/log" && grep -q 'device is back' "$work/log"
}

# One that fails whatever is done is given up, and its tasks end: of each program one that has lost
# it twice, which is the device's fault the first time and its own the second.
given_up() {
	# shellcheck disable=SC2016 # for the inner shell
	EMULATED_FAULT=1:214:1000 logged "$1" sh -c \
		'! "$0" && ! "$0" && ! "$0" && ! "$0" && ! "$0"' "$examples/quickstart" || return 1
	[ "$(grep -c 'device is back' "$work/log")" = 6 ] && grep -q 'device is given up' "$work/log"
}

# A task that breaks whatever it runs on ends, and the next program finds all devices.
bounded() {
	# shellcheck disable=SC2016 # for the inner shell
	EMULATED_DEVICES=2 EMULATED_FAULT=1:214:6 "$arax" run --verbose --config "$work/$1.conf" \
		--kernels build/lib/arax/kernels sh -c '! "$0" && ! "$0" && ! "$0" && "$0" && "$1" devices' \
		"$examples/quickstart" "$arax" >"$work/log" 2>&1 || { cat "$work/log"; return 1; }
	cat "$work/log"
	grep -q 'as 2 were by now while they ran nothing but this task' "$work/log" &&
		! grep -q 'device is given up' "$work/log"
}

# logged KIND COMMAND...: as on(), what is said and araxd's log in $work/log; what faults is
# counted for all processes that drive the device together
logged() {
	rm -f "$work/shared"
	EMULATED_DEVICES=1 EMULATED_SHARED=$work/shared "$arax" run --verbose --config "$work/$1.conf" \
		--kernels build/lib/arax/kernels "${@:2}" >"$work/log" 2>&1
	local rc=$?
	cat "$work/log"
	return "$rc"
}

# A bad access: EFAULT to whose kernel it was, and the next program finds a whole device, whether
# the driver gives araxd another context or goes on in a process of its own.
fails_alone() {
	# shellcheck disable=SC2016 # for the inner shell
	EMULATED_FAULT=1:700:1 logged "$1" sh -c \
		'! "$0" 2>"$1" && "$0" && "$0" && cat "$1"' "$examples/quickstart" "$work/err" || return 1
	[ "$(grep -c 'sum\[999999\] = 2999997' "$work/log")" = 2 ] &&
		grep -qi 'bad address\|EFAULT' "$work/log" &&
		[ "$(grep -c 'device is back' "$work/log")" = 1 ]
}
apart='goes on in a process of its own'
faults() {
	fails_alone "$1" && grep -q "$apart" "$work/log"
}
faults_forgiven() {
	EMULATED_FORGIVING=1 fails_alone "$1" && ! grep -q "$apart" "$work/log"
}

out_of_core() {
	local kind=${1%-emulated}
	echo "cpu { enable = false } backend \"$kind\" { options = { \"memory=2M\",
		\"library=$PWD/build/test/plain/lib$kind-emulated.so\" } }" >"$work/small.conf"
	EMULATED_DEVICES=1 served "$work/small.conf" build/lib/arax/kernels "$tests/four-times" saxpy &&
		evicts
}

# In a process of its own from the start on: the same, but that it does not move.
there='device is driven in a process of its own'
faults_there() {
	fails_alone "$1" && grep -q "$there" "$work/log" && ! grep -q "$apart" "$work/log"
}

# A runtime that aborts takes the device's process along and no more, and its task ends by itself.
aborts() {
	# shellcheck disable=SC2016 # for the inner shell
	EMULATED_FAULT=1:-1:2 logged "$1" sh -c \
		'! "$0" && "$0" && "$1" devices' "$examples/quickstart" "$arax" || return 1
	[ "$(grep -c 'the process of a device has ended' "$work/log")" = 2 ] &&
		grep -q 'as 2 were by now while they ran nothing but this task' "$work/log" &&
		! grep -q 'device is given up' "$work/log"
}

# In the other process a program's data comes and goes as it did in araxd.
works_apart() {
	on cpu "$examples/image-pipeline" examples/data/rocket.jpg "$work/cpu.png"
	# shellcheck disable=SC2016 # for the inner shell
	EMULATED_FAULT=1:700:1 logged "$1" sh -c \
		'! "$0" && "$1" examples/data/rocket.jpg "$2" && "$0"' "$examples/quickstart" \
		"$examples/image-pipeline" "$work/$1.png" || return 1
	grep -q "$apart" "$work/log" && grep -q 'sum\[999999\] = 2999997' "$work/log" &&
		python3 selftests/system/same-picture.py "$work/cpu.png" "$work/$1.png" 1
}

# Each program's kernel faults: the device is had again three times, in other processes.
given_up_apart() {
	# shellcheck disable=SC2016 # for the inner shell
	EMULATED_FAULT=1:700:1000 logged "$1" sh -c \
		'! "$0" && ! "$0" && ! "$0" && ! "$0" && ! "$0"' "$examples/quickstart" || return 1
	[ "$(grep -c "$apart" "$work/log")" = 1 ] &&
		[ "$(grep -c 'device is back' "$work/log")" = 3 ] &&
		grep -q 'device is given up' "$work/log"
}

# The program is not there: said, and the device is lost.
no_helper() {
	sed 's|options = {|& "helper=/nowhere/arax-device",|' "$work/$1.conf" >"$work/$1-alone.conf"
	# shellcheck disable=SC2016 # for the inner shell
	EMULATED_FAULT=1:700:1 logged "$1-alone" sh -c '! "$0" && ! "$0"' "$examples/quickstart" || return 1
	grep -q 'no such program.*program=/nowhere/arax-device' "$work/log" &&
		grep -q 'device stays lost' "$work/log" && ! grep -q 'device is back' "$work/log"
}

# gauges FILE: what SIGUSR1 makes araxd write, with NVML in FILE
gauges() {
	local pid
	echo "cpu { enable = false } backend \"cuda\" { options = { \"library=$PWD/build/test/plain/libcuda-emulated.so\", \"nvml=$1\" } }" \
		>"$work/nvml.conf"
	# Not by the process in the background: what the one before it wrote would be seen.
	: >"$work/log"
	build/bin/araxd --user --config "$work/nvml.conf" --socket "$work/nvml.sock" \
		>>"$work/log" 2>&1 &
	pid=$!
	await_line 'araxd is ready' "$work/log"
	kill -USR1 "$pid"
	await_line 'device gauges device=1' "$work/log"
	kill "$pid"
	wait "$pid"
	cat "$work/log"
}
gauges_shown() {
	gauges "$PWD/build/test/plain/libnvml-emulated.so" &&
		grep -q 'device gauges device=0 busy_percent=10 memory_busy_percent=5 power_mw=100000' "$work/log" &&
		grep -q 'device gauges device=1 busy_percent=11 memory_busy_percent=6 power_mw=100001' "$work/log"
}
gauges_missing() {
	gauges /nowhere/nvml.so && grep -q 'device gauges device=1 unknown="no NVML, install it' "$work/log"
}

# Both drivers have a device at the same place: it is the same one.
two_backends() {
	local driver=$PWD/build/test/plain
	echo "cpu { enable = false } backend \"cuda\" { options = { \"library=$driver/libcuda-emulated.so\" } }
		backend \"hip\" { options = { \"library=$driver/libhip-emulated.so\" } }" >"$work/both.conf"
	EMULATED_DEVICES=1 "$arax" run --verbose --config "$work/both.conf" true >"$work/log" 2>&1
	cat "$work/log"
	grep -q 'two backends have the same device.*bus=0000:a0:00.0' "$work/log" || return 1
	EMULATED_DEVICES=2 "$arax" run --verbose --config "$work/cuda-emulated.conf" true >"$work/log" 2>&1
	! grep -q 'two backends' "$work/log"
}

# bench [NAME=VALUE...]: arax-bench cuda for a moment, its object in $work/bench
bench() {
	env TMPDIR="$work" EMULATED_DEVICES=1 ARAX_BENCH_CUDA="$PWD/build/test/plain/libcuda-emulated.so" \
		"$@" build/bin/arax-bench cuda --json --seconds 0.5 --rounds 2 >"$work/bench"
}

# All of it runs, each result is checked, and no figure of it is given.
bench_runs() {
	bench && python3 - "$work/bench" <<-'END'
	import json, sys
	text = open(sys.argv[1]).read()
	o = json.loads(text)
	assert "emulated" in o["skipped"], o["skipped"]
	programs = ["VEC", "B&S", "IMG", "ML", "HITS", "DL"]
	assert [r["program"] for r in o["rows"]] == programs, o["rows"]
	assert all(r["checked"] and set(r) == {"program", "size", "tasks", "checked"} for r in o["rows"])
	wanted = ["null task", "64 null tasks, each", "copy in", "copy out", "16 pieces, overlapped",
	          "programs, beside streams", "programs, beside graph", "programs, over synchronous"]
	assert o["ran"][:len(wanted)] == wanted and len(o["ran"]) == len(wanted) + 6, o["ran"]
	assert not o["parts"] and not o["peers"] and "value" not in o and "ratio" not in o, o
	assert " ns" not in text and "GB/s" not in text and "_ms" not in text, text
	END
}

# bench_says TEXT [NAME=VALUE...]: it is left out, and why
bench_says() {
	bench "${@:2}" && cat "$work/bench" && grep -q "\"skipped\": \"$1" "$work/bench"
}

# The driver fails under the bench itself: it says what, and prints no object.
bench_fails() {
	! bench EMULATED_FAULT=1:700:1000 2>"$work/err" || return 1
	cat "$work/err"
	[ ! -s "$work/bench" ] && grep -q '^arax-bench: ' "$work/err"
}

# Its own, not those of a library.
has_kernels() {
	local ending=co

	[ "$1" != cuda ] || ending=ptx
	grep -q "\"arax-std.$ending\"" build/lib/arax/kernels/arax-std.json
}

# try NAME KIND: what is above, on the devices of $work/NAME.conf
try() {
	check "$1: arax devices lists them" listed "$1" "$2"
	if has_kernels "$2"; then
		check "$1: quickstart" quickstart "$1"
		check "$1: image-pipeline, within one step" pipeline "$1"
		check "$1: montecarlo, a kernel of one's own" montecarlo "$1"
	else
		skip "$1: kernels" "arax-std has none of kind $2: its compiler was not there"
	fi
}

# geometry MIXED ALONE: work-groups that a GPU doesn't take, where a processor is and where none is
geometry() {
	"$arax" run --config "$work/$1.conf" --kernels build/lib/arax/kernels "$tests/geometry" \
		goes_where_it_can_run && on "$2" "$tests/geometry" ends_with_the_reason
}

# with_kernels "KIND: NAME" TEST: on the driver in software, where arax-std has kernels for it
with_kernels() {
	local kind=${1%%:*}
	if has_kernels "$kind"; then
		check "$kind-emulated:${1#*:}" "$2" "$kind-emulated"
	else
		skip "$kind-emulated:${1#*:}" "arax-std has none of kind $kind: its compiler was not there"
	fi
}

: >"$work/cpu.conf"
echo "cpu { enable = false } backend \"cuda\" { options = {
	\"library=$PWD/build/test/plain/libcuda-emulated.so\",
	\"nvml=$PWD/build/test/plain/libnvml-emulated.so\" } }" >"$work/cuda-nvml.conf"
for kind in cuda hip; do
	driver=$PWD/build/test/plain/lib$kind-emulated.so
	if [ -e "$driver" ]; then
		for apart_is in no yes auto; do
			echo "cpu { enable = false } backend \"$kind\" { options = { \"library=$driver\", \"apart=$apart_is\" } }" \
				>"$work/$kind-$apart_is.conf"
			echo "sched { policy = \"rr\" } backend \"$kind\" { options = { \"library=$driver\", \"apart=$apart_is\" } }" \
				>"$work/$kind-mixed-$apart_is.conf"
		done
		mv "$work/$kind-no.conf" "$work/$kind-emulated.conf"
		try "$kind-emulated" "$kind"
		[ "$kind" != cuda ] || check 'cuda-emulated: arax devices says how busy they are' \
			figures cuda-nvml
		with_kernels "$kind: a device that fails is rebuilt, and nobody notices" rebuilt
		with_kernels "$kind: one that always fails is given up" given_up
		with_kernels "$kind: a task that breaks every device ends" bounded
		with_kernels "$kind: a kernel that faults fails its task alone" faults
		with_kernels "$kind: so it does where the driver gives another context" faults_forgiven
		with_kernels "$kind: image-pipeline in the other process" works_apart
		with_kernels "$kind: a device whose kernels always fault is given up" given_up_apart
		with_kernels "$kind: without arax-device it is lost" no_helper
		if has_kernels "$kind"; then
			check "$kind-emulated: work-groups that it doesn't take" \
				geometry "$kind-mixed-no" "$kind-emulated"
			check "$kind-emulated: so it is where it is apart" geometry "$kind-mixed-yes" "$kind-yes"
			check "$kind-emulated: quickstart where it is apart from the start on" quickstart "$kind-yes"
			check "$kind-emulated: a kernel that faults there" faults_there "$kind-yes"
			check "$kind-emulated: one that ends the process of its device" aborts "$kind-yes"
			[ "$kind" != hip ] || check "hip-emulated: it is by default" faults_there hip-auto
		else
			skip "$kind-emulated: apart from the start on" "arax-std has none of kind $kind: its compiler was not there"
		fi
		with_kernels "$kind: four times the data that the device has memory for" out_of_core
		if [ "$kind" = cuda ]; then
			check "$kind-emulated: SIGUSR1 shows utilisation and power" gauges_shown
			check "$kind-emulated: or says why it can't" gauges_missing
		fi
		if [ "$kind" = cuda ] && has_kernels cuda; then
			check "$kind-emulated: arax-bench cuda runs, and gives no figures" bench_runs
			check "$kind-emulated: it stops where the device fails" bench_fails
			check "$kind-emulated: without a device it is left out" \
				bench_says "no CUDA device: CUDA_ERROR_NO_DEVICE" EMULATED_DEVICES=0
			check "$kind-emulated: so it is without a driver" \
				bench_says "no NVIDIA driver: " ARAX_BENCH_CUDA=/nowhere/libcuda.so
			check "$kind-emulated: and with another library" \
				bench_says ".*a driver for CUDA 11.4 or newer" ARAX_BENCH_CUDA=libm.so.6
		fi
	else
		skip "$kind-emulated" "built without the headers of $kind"
	fi
	if [ "$kind" = hip ] && [ -e "$driver" ] && [ -e "${driver/hip/cuda}" ]; then
		check "a device that two backends have is told" two_backends
	fi
	echo "cpu { enable = false } backend \"$kind\" { }" >"$work/$kind.conf"
	if on "$kind" true 2>"$work/why"; then
		try "$kind" "$kind"
	else
		skip "$kind, hardware" "$(grep -o 'backend=.* reason=.*' "$work/why" | head -n 1)"
	fi
done

echo "1..$n"
exit $status
