#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The same example programs on the CPU and on OpenCL devices, by one option of
# `arax run`: the same results, the picture within one step of 255.

set -euo pipefail

cd "$(dirname "$0")/../.."
arax=$PWD/build/bin/arax
examples=$PWD/build/examples
work=$(mktemp -d /tmp/arax-kinds.XXXXXX)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache XDG_STATE_HOME=$work/state

if ! "$arax" run --kind opencl true 2>"$work/why"; then
	if reason=$(grep -o 'backend=opencl reason=.*' "$work/why"); then
		echo "1..0 # SKIP $reason"
		exit 0
	fi
	echo "not ok 1 - an araxd with OpenCL devices starts"
	sed 's/^/# /' "$work/why"
	exit 1
fi

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

# on KIND PROGRAM...: run it on such devices alone
on() {
	"$arax" run --kind "$1" --kernels build/lib/arax/kernels --kernels build/examples/kernels \
		"${@:2}"
}

listed() {
	"$arax" run --kind opencl "$arax" devices --json |
		python3 -c 'import json, sys
d = json.load(sys.stdin)
assert d[0]["kind"] == "opencl", d
assert all((x["kind"] == "opencl") == x["online"] == (x["reason"] is None) for x in d), d'
}
check "arax devices lists the OpenCL devices, and only them" listed

both() {
	on opencl,cpu "$arax" devices --json |
		python3 -c 'import json, sys
assert {"cpu", "opencl"} == {x["kind"] for x in json.load(sys.stdin) if x["online"]}'
}
check "both kinds at once" both

unknown() {
	! "$arax" run --kind gpu true 2>"$work/err" && grep -q 'kind "gpu": must be' "$work/err"
}
check "an unknown kind is refused by name" unknown

# Where it was computed and how long that took differ, and nothing else.
quickstart() {
	local kind
	for kind in cpu opencl; do
		on "$kind" "$examples/quickstart" | sed 's/, computed.*//' >"$work/quick.$kind"
	done
	grep -q 'sum\[999999\] = 2999997' "$work/quick.opencl" &&
		cmp "$work/quick.cpu" "$work/quick.opencl"
}
check "quickstart" quickstart

montecarlo() {
	local kind
	for kind in cpu opencl; do
		on "$kind" "$examples/montecarlo" | grep -o 'pi is about [0-9.]*' >"$work/pi.$kind"
	done
	cat "$work/pi.cpu" "$work/pi.opencl"
	test -s "$work/pi.cpu" && cmp "$work/pi.cpu" "$work/pi.opencl"
}
check "montecarlo: the same digits" montecarlo

# What one kind doesn't take another one does, wherever a task is tried first.
geometry() {
	cat >"$work/geometry.conf" <<END
sched { policy = "rr" }
backend "opencl" { options = { "zero-copy=$1" } }
END
	on "$2" --config "$work/geometry.conf" build/selftests/system/geometry "$3"
}
for zero_copy in auto no; do
	check "work-groups that OpenCL doesn't take go to the processor (zero-copy=$zero_copy)" \
		geometry "$zero_copy" cpu,opencl goes_where_it_can_run
	check "where there is none the task ends with the reason (zero-copy=$zero_copy)" \
		geometry "$zero_copy" opencl ends_with_the_reason
done

# Nothing could end it, on any kind.
too_many() {
	local kind
	for kind in cpu opencl; do
		if on "$kind" "$examples/montecarlo" --samples $((1 << 30 | 1)) 2>"$work/many"; then
			return 1
		fi
		cat "$work/many"
		grep -q 'an argument that can never be right' "$work/many" || return 1
	done
}
check "montecarlo: more samples than a launch may take" too_many

pipeline() {
	local kind
	for kind in cpu opencl; do
		on "$kind" "$examples/image-pipeline" examples/data/rocket.jpg "$work/$kind.png"
	done
	python3 selftests/system/same-picture.py "$work/cpu.png" "$work/opencl.png" 1
}
check "image-pipeline: within one step" pipeline

# In one run, too, of which each kind has a part; tiles that are no whole ones, and one that is all.
solved() {
	local out
	out=$(on "$@") || return 1
	echo "$out"
	if [ "$1" = cpu,opencl ]; then
		grep -q ' on cpu' <<<"$out" && grep -q ' on opencl' <<<"$out" || return 1
	fi
	grep -Eq 'largest error ([0-9.]*e-1[2-9]|0\.0e\+00)$' <<<"$out"
}
solves() {
	local kind
	echo 'sched { policy = "rr" }' >"$work/turns.conf"
	for kind in cpu opencl cpu,opencl; do
		solved "$kind" --config "$work/turns.conf" "$examples/solve" --order 1001 --tile 100 || return 1
	done
	# Of tiles that are larger than the matrix it has one as large.
	solved opencl "$examples/solve" --order 77 --tile 32768 && solved opencl "$examples/solve" --order 1 --tile 1
}
if [ -e build/lib/arax/kernels/arax-blas.so ]; then
	check "solve: on each kind, and on both at once" solves
else
	n=$((n + 1))
	echo "ok $n - solve # SKIP arax-blas has none for processors: no libopenblas-openmp-dev"
fi

# By kernels that find all unknowns but the first.
mkdir "$work/wrong"
cat >"$work/wrong/wrong.c" <<'END'
#include <arax/kernel.h>
#include <math.h>

ARAX_KERNEL int nothing(const struct arax_launch *l);
ARAX_KERNEL int wrong(const struct arax_launch *l);

int nothing(const struct arax_launch *l)
{
	(void)l;
	return 0;
}

int wrong(const struct arax_launch *l)
{
	double *x = l->ranges[1].data;

	for (int i = 0; i < 20; i++)
		x[i] = i ? 1 + (double)(i % 10) / 10 : NAN;
	return 0;
}
END
unsolved() {
	python3 - daemon/kernels/blas/arax-blas.json "$work/wrong/wrong.json" <<'END' &&
import json, sys
m = json.load(open(sys.argv[1]))
for k in m["kernels"]:
	symbol = "wrong" if k["signature"].startswith("trsm") else "nothing"
	k["implementations"] = [{"kind": "cpu", "file": "wrong.so", "symbol": symbol}]
json.dump(m, open(sys.argv[2], "w"))
END
		gcc -Wall -Wextra -Werror -O2 -fPIC -shared -Ilibarax/include -o "$work/wrong/wrong.so" \
			"$work/wrong/wrong.c" && chmod 755 "$work" "$work/wrong" &&
		chmod go-w "$work/wrong"/* || return 1
	if "$arax" run --kind cpu --kernels "$work/wrong" "$examples/solve" --order 20 --tile 20 \
		>"$work/unsolved" 2>&1; then
		cat "$work/unsolved"
		return 1
	fi
	cat "$work/unsolved"
	grep -q 'largest error -\?nan$' "$work/unsolved" && grep -q 'more than rounding' "$work/unsolved"
}
check "solve: an unknown that is no number is an error" unsolved

# The source of docs/kernels-reference.md that is C and OpenCL C at once, word for word.
mkdir "$work/one"
chmod 755 "$work" "$work/one"
awk -v dir="$work/one/" '
	/`logistic.c`, for both:$/ { name = "logistic.c" }
	/`logistic.json`, gives the source itself for OpenCL:$/ { name = "logistic.json" }
	/^```$/ { close(dir name); name = ""; open = 0 }
	open { print > (dir name) }
	/^```/ && name != "" { open = 1 }' docs/kernels-reference.md
cat >"$work/use.c" <<'END'
#include <arax/arax.h>
#include <stdio.h>

/* With an argument: that is the source of the kernel. */
int main(int argc, char **argv)
{
	struct arax_own_kernel mine = {
		.signature = "logistic_map(inout f32 x[], f32 r, u32 steps, u32 n)",
	};
	struct { float r; uint32_t steps, n; } args = { 3.7f, 100, 1000 };
	struct arax_kernel map;
	struct arax_queue *queue;
	struct arax_buffer *x;
	struct arax *ax;
	float *data;

	if (arax_open(&ax, NULL) ||
	    (argc > 1 ? arax_module_load_file(ax, ARAX_DEVICE_OPENCL, argv[1], &mine, 1, &map) :
			arax_kernel_find(ax, "logistic_map", 0, &map)) ||
	    arax_queue_create(ax, ARAX_QUEUE_DATAFLOW, 0, &queue) ||
	    arax_buffer_create(ax, args.n * sizeof(float), 0, &x))
		goto failed;
	data = arax_buffer_data(x);
	for (uint32_t i = 0; i < args.n; i++)
		data[i] = (float)(i + 1) / 1001;
	if (arax_launch(queue, &map, arax_grid(4, 1, 1), ARAX_ARGS(args), ARAX_RANGES(arax_inout(x)),
			NULL) ||
	    arax_queue_finish(queue, ARAX_DEADLINE_NONE))
		goto failed;
	for (uint32_t i = 0; i < args.n; i++)
		printf("%a\n", (double)data[i]);
	return 0;
failed:
	fprintf(stderr, "%s\n", arax_error_text());
	return 1;
}
END
one_source() {
	gcc -Wall -Wextra -Werror -O3 -ffp-contract=off -fPIC -shared -Ilibarax/include -Iuapi \
		-o "$work/one/logistic.so" "$work/one/logistic.c" &&
		gcc -Wall -Wextra -Werror -O2 -Ilibarax/include -Iuapi -o "$work/use" "$work/use.c" \
			-Lbuild/lib -larax &&
		chmod go-w "$work/one"/* || return 1
	local kind
	for kind in cpu opencl; do
		LD_LIBRARY_PATH=build/lib "$arax" run --kind "$kind" --kernels "$work/one" \
			"$work/use" >"$work/map.$kind" || return 1
	done
	test "$(sort -u "$work/map.cpu" | wc -l)" -gt 400 && cmp "$work/map.cpu" "$work/map.opencl"
}
check "one source for both: the same bits" one_source

# docs/kernels-reference.md's function that calls CLBlast, its line of the manifest, and the guide's program.
mkdir "$work/blast"
chmod 755 "$work/blast"
awk -v dir="$work/blast/" '
	/^`use-scale.c`:$/ { name = "use-scale.c" }
	/`scale-blast.c`, beside the files of / { name = "scale-blast.c" }
	/^```$/ { close(dir name); name = ""; open = 0 }
	open { print > (dir name) }
	/^```/ && name != "" { open = 1 }
	/scale_blast", "entry": "host"/ {
		sub(/, "devices": "gpus"/, "")
		sub(/,$/, "")
		print "{ \"library\": \"blast\", \"version\": \"1\", \"kernels\": [" \
		      "{ \"signature\": \"scale(inout f32 x[], f32 factor, u32 n)\", \"addressing\": \"launch\"," \
		      "\"implementations\": [" $0 "] } ] }" > (dir "scale-blast.json")
	}' docs/kernels.md docs/kernels-reference.md
vendor() {
	gcc -Wall -Wextra -Werror -O2 -fPIC -shared -DCL_TARGET_OPENCL_VERSION=120 -Ilibarax/include \
		-o "$work/blast/scale-blast.so" "$work/blast/scale-blast.c" -lclblast &&
		gcc -Wall -Wextra -Werror -O2 -Ilibarax/include -Iuapi -o "$work/use-scale" \
			"$work/blast/use-scale.c" -Lbuild/lib -larax &&
		chmod go-w "$work/blast"/* || return 1
	LD_LIBRARY_PATH=build/lib "$arax" run --kind opencl --kernels "$work/blast" "$work/use-scale" |
		grep -x '7 \* 3 = 21'
}
# What it computes for GPUs and nothing else does is no fault of this device.
for_gpus() {
	sed -i 's/"entry": "host"/&, "devices": "gpus"/' "$work/blast/scale-blast.json"
	"$arax" run --verbose --kind opencl --kernels build/lib/arax/kernels --kernels "$work/blast" true \
		2>"$work/log"
	cat "$work/log"
	! grep -q "warning: device can't run kernel" "$work/log" &&
		grep -q 'for GPUs alone.*device="opencl0.*kernels=scale' "$work/log"
}
with_clblast() {
	if echo '#include <clblast_c.h>' | gcc -DCL_TARGET_OPENCL_VERSION=120 -E - >/dev/null 2>&1; then
		check "$@"
	else
		n=$((n + 1))
		echo "ok $n - $1 # SKIP no CLBlast (Debian: libclblast-dev)"
	fi
}
with_clblast "a vendor's library in place of a kernel" vendor
with_clblast "what is for GPUs alone is said once, and no warning" for_gpus

# What is closed in has to be able to be: without Landlock, or namespaces, it is refused.
closed_in() {
	local name=$1
	if [ -z "${lacking+set}" ]; then
		lacking=
		ways=(--mount --pid --net --ipc --fork)
		[ "$(id -u)" = 0 ] || ways+=(--user)
		unshare "${ways[@]}" true 2>/dev/null || lacking='no namespaces may be made here'
		# Read to its end: araxd writes on.
		if "$arax" run --verbose --kind cpu true 2>&1 | grep "can't run.*missing=" >/dev/null; then
			lacking='nothing here can close them in'
		fi
	fi
	if [ -n "$lacking" ]; then
		n=$((n + 1))
		echo "ok $n - $name # SKIP $lacking"
	else
		check "$@"
	fi
}

# The same library without its promise: in processes of the user, compiled when it is wanted, where
# its launches end by their time.
followed() {
	mkdir "$work/data" && cp "$work/one"/logistic.* "$work/data/" &&
		sed -e 's/"addressing": "launch"/"addressing": "data"/' -e '/"work":/d' "$work/one/logistic.json" \
			>"$work/data/logistic.json" && chmod 755 "$work/data" || return 1
	local kind
	for kind in cpu opencl; do
		LD_LIBRARY_PATH=build/lib "$arax" run --verbose --kind "$kind" --kernels "$work/data" \
			"$work/use" >"$work/data.$kind" 2>"$work/data.log" || return 1
		cmp "$work/map.$kind" "$work/data.$kind" || return 1
	done
}
closed_in "kernels that follow data: the same bits" followed

broken() {
	sed 's/1 - x/1 - y/' "$work/one/logistic.c" >"$work/data/logistic.c"
	! LD_LIBRARY_PATH=build/lib "$arax" run --verbose --kind opencl --kernels "$work/data" \
		"$work/use" >"$work/broken" 2>&1 &&
		grep -q "kernel can't be built.*undeclared identifier 'y'" "$work/broken" &&
		grep -q "no device can run kernel logistic_map: it does not compile: error: [^/]*undeclared identifier 'y'" \
			"$work/broken"
}
closed_in "and what does not compile is in the log, and in the program's error" broken

# The same program brings the source itself.
brought() {
	LD_LIBRARY_PATH=$PWD/build/lib "$arax" run --kind "$1" "$work/use" "$work/${2-one}/logistic.c"
}
brought_runs() {
	brought opencl >"$work/brought" && cmp "$work/map.opencl" "$work/brought"
}
closed_in "OpenCL C that the program brings: the same bits" brought_runs

brought_broken() {
	! brought opencl data >"$work/broken" 2>&1 &&
		grep -q "loading a module: it does not compile: error: [^/]*undeclared identifier 'y'" \
			"$work/broken"
}
# Shorter than what begins with where it lies and for what it was compiled.
closed_in "and if it does not compile, its error begins with why" brought_broken

brought_to_none() {
	! brought cpu >"$work/refused" 2>&1 && grep -q 'there is no device of kind 1 here' "$work/refused"
}
check "and where there is no device for it, it is refused" brought_to_none

# A user without namespaces of users has no way to give the compiler files of its own.
cat >"$work/without.sh" <<'END'
echo 0 >/proc/sys/user/max_user_namespaces || exit 77
exec setpriv --inh-caps=-all --ambient-caps=-all --bounding-set=-all "$@"
END
brought_without() {
	mkdir -p "$work/none" "$work/state"
	HOME=$work/state XDG_STATE_HOME=$work/state LD_LIBRARY_PATH=$PWD/build/lib \
		unshare --user --map-user=1000 --keep-caps sh "$work/without.sh" \
		"$arax" run --verbose --kind opencl --kernels "$work/none" "$work/use" \
		"$work/one/logistic.c" >"$work/without" 2>&1 && return 1
	if grep -q 'missing="mount namespaces' "$work/without" &&
	   grep -q "doesn't support it" "$work/without"; then
		return 0
	fi
	cat "$work/without"
	return 1
}
# Files that are root's have to be that user's.
if [ "$(id -u)" = 0 ] &&
   unshare --user --map-user=1000 --keep-caps sh "$work/without.sh" true 2>/dev/null; then
	check "and where it can't be closed in" brought_without
else
	n=$((n + 1))
	echo "ok $n - where it can't be closed in # SKIP not root, or no namespaces of users here"
fi

# The other way round: what differs is seen.
differs() {
	on cpu "$examples/image-pipeline" --repeat 1 "$work/cpu.png" "$work/other.png" 2>/dev/null &&
		! python3 selftests/system/same-picture.py "$work/cpu.png" "$work/other.png" 1
}
check "another picture is told apart" differs

absent() {
	OCL_ICD_VENDORS=/nowhere OPENCL_VENDOR_PATH=/nowhere on cpu,opencl "$arax" devices |
		grep -q 'no OpenCL driver: install one (Debian: pocl-opencl-icd): no platform is installed'
}
check "arax devices says why there is none" absent

# A driver that ends who asks it for its devices: araxd starts without, and names it.
bad_driver() {
	mkdir -p "$work/icd"
	echo "$PWD/build/test/bad_icd.so" >"$work/icd/bad.icd"
	OCL_ICD_VENDORS=$work/icd BAD_ICD=abort on cpu,opencl "$arax" devices --json |
		python3 -c 'import json, sys
d = json.load(sys.stdin)
cl, = [x for x in d if x["kind"] == "opencl"]
assert not cl["online"] and "bad.icd crashed (Aborted), saying \"bad_icd: out of luck\"" in cl["reason"], d
assert any(x["kind"] == "cpu" and x["online"] for x in d), d'
}
check "an OpenCL driver that crashes is kept out, by name" bad_driver

# The OpenCL device is lost at each N-th launch, and the processor goes on until it is back: the program
# sees nothing of it, nor does the next one.  Not at "extend", which it may get sooner or later:
# that one changes what it reads, and in place nobody can run it again.
cat >"$work/moves.sh" <<'END'
"$1" --repeat 3 examples/data/rocket.jpg "$2" && "$1" --repeat 1 examples/data/rocket.jpg "$3" || exit 1
# Figures are published now and then, and what they are at the end only after it.
for ((i = 0; i < 600; i++)); do
	"$4" devices --json >"$5"
	python3 "$6" "$5" "$7" "$8" 2>"$5.why" && grep -q 'device is back' "$5.log" && break
	sleep 0.1
done
END
cat >"$work/moved.py" <<'END'
import json, sys
d = json.load(open(sys.argv[1]))
used = {x["kind"]: x for x in d if x["lanes"]}
assert used["cpu"]["online"] and used["cpu"]["tasks"] > 0, d
cl = used["opencl"]
assert (cl["memory"] > 0) == (sys.argv[2] == "no") and cl["tasks"] >= int(sys.argv[3]), cl
END
moves() {
	local kinds=$work/moves
	cat >"$work/moves.conf" <<END
cpu { groups = { "0" } }
sched { policy = "rr" }
backend "opencl" { options = { "zero-copy=$1" } }
filter "error" { devices = "opencl*" options = { "errno=ENODEV", "every=$2", "kernel=[!e]*" } }
END
	"$arax" run --verbose --config "$work/moves.conf" --kernels build/lib/arax/kernels \
		--kernels build/examples/kernels bash "$work/moves.sh" "$examples/image-pipeline" \
		"$work/moved.png" "$work/after.png" "$arax" "$kinds" "$work/moved.py" "$1" "$2" \
		2>"$work/moves.log" || {
		cat "$work/moves.log"
		return 1
	}
	grep -q 'device is lost device="opencl0' "$work/moves.log" || return 1
	grep -q 'device is back device="opencl0' "$work/moves.log" || return 1
	python3 "$work/moved.py" "$kinds" "$1" "$2" || return 1
	"$arax" run --kind cpu --kernels build/lib/arax/kernels "$examples/image-pipeline" \
		examples/data/rocket.jpg "$work/cpu.png"
	python3 selftests/system/same-picture.py "$work/cpu.png" "$work/moved.png" 1 &&
		python3 selftests/system/same-picture.py "$work/cpu.png" "$work/after.png" 1
}
for n_th in 1 5; do
	check "lost at launch $n_th, in place: the processor goes on" moves auto "$n_th"
	check "lost at launch $n_th, with memory of its own: the processor goes on" moves no "$n_th"
done

echo "1..$n"
exit $status
