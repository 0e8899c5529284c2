#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The Rodinia programs through `arax run` on each kind of device, on copies, and on
# both kinds in one run: each result beside a sequential version.  TAP on standard output.

set -uo pipefail

cd "$(dirname "$0")/../.." || exit 1
unset ARAX_LINK
arax=$PWD/build/bin/arax
rodinia=$PWD/build/bin/arax-rodinia
kernels=$PWD/build/lib/arax/rodinia-kernels
work=$(mktemp -d /tmp/arax-rodinia.XXXXXX)
missing=
trap '[ -z "$missing" ] || kill "$missing" 2>/dev/null || :; rm -rf "$work"' EXIT
# What others learnt or compiled is none of these runs'.
export XDG_CACHE_HOME=$work/cache XDG_STATE_HOME=$work/state
n=0
failed=0
# shellcheck source=/dev/null
. selftests/system/tap.sh

skip() {
	n=$((n + 1))
	echo "ok $n - $1 # SKIP $2"
}

# Programs at their sizes, and at tiny and odd ones; run inside one araxd.
cat >"$work/each" <<END
set -e
'$rodinia' all --check --json
while read -r name size steps; do
	'$rodinia' "\$name" --size "\$size" --steps "\$steps" --seed 5 --check --json
done <<SIZES
bfs 1 1
bfs 2 3
bfs 1023 5
gaussian 2 1
gaussian 77 1
hotspot 1 1
hotspot 61 3
hotspot 257 5
hotspot3d 1 3
hotspot3d 65 3
lavamd 1 1
lavamd 3 2
nn 1 1
nn 4097 6
nw 1 1
nw 33 2
nw 250 1
particlefilter 1 2
particlefilter 257 4
pathfinder 1 2
pathfinder 985 21
SIZES
END

# all_right KINDS OUT: every result is correct, devices are of these kinds and of each of them
cat >"$work/right.py" <<'END'
import json
import sys

text = open(sys.argv[2], encoding='utf-8').read()
at, runs, kinds = 0, [], {}
while text[at:].strip():
    run, end = json.JSONDecoder().raw_decode(text[at:].lstrip())
    at += len(text[at:]) - len(text[at:].lstrip()) + end
    runs.append(run)
    for d in run['devices']:
        kinds[d['kind']] = kinds.get(d['kind'], 0) + d['tasks']
assert len(runs) == 9 + 21, f'{len(runs)} runs'
assert len({r['program'] for r in runs}) == 9, runs
for r in runs:
    assert r['checked'] and r['correct'] and r['compared'] > 0, r
    assert sum(d['tasks'] for d in r['devices']) == r['tasks'] > 0, r
assert set(kinds) == set(sys.argv[1].split(',')), kinds
END

# try KINDS WHAT [CONFIGURATION]
try() {
	local options=()
	if [ -n "${3-}" ]; then
		echo "$3" >"$work/conf"
		options=(--config "$work/conf")
	fi
	"$arax" run "${options[@]}" --kind "$1" --kernels "$kernels" bash "$work/each" \
		>"$work/out" 2>"$work/err"
	local rc=$?
	[ $rc != 0 ] || python3 "$work/right.py" "$1" "$work/out" >>"$work/err" 2>&1 || rc=1
	cp "$work/err" "$work/out"
	ok $rc "$2: all nine are right"
}

# It waits ten seconds for kernels that may come yet.
"$arax" run --private "$rodinia" bfs --size 10 >"$work/missing" 2>&1 &
missing=$!

try cpu 'on processor cores'
try cpu 'on copies, on processor cores' 'cpu { memory = "256M" }'
if "$arax" run --kind opencl true 2>"$work/why"; then
	try opencl 'on an OpenCL device'
	try opencl 'on copies, on an OpenCL device' \
		'backend "opencl" { options = { "zero-copy=no" } }'
	# In turn, so that both have some, whatever is learnt of them.
	try cpu,opencl 'on both kinds in one run' 'sched { policy = "rr" }'
	try cpu,opencl "on both, OpenCL's on copies" 'sched { policy = "rr" }
		backend "opencl" { options = { "zero-copy=no" } }'
else
	reason=$(grep -o 'backend=opencl reason=.*' "$work/why") || reason=
	for what in 'an OpenCL device' 'copies, on an OpenCL device' 'both kinds in one run' \
			"both, OpenCL's on copies"; do
		if [ -n "$reason" ]; then
			skip "on $what" "$reason"
		else
			cp "$work/why" "$work/out"
			ok 1 "on $what: an araxd with OpenCL devices starts"
		fi
	done
fi

# A program starts its own araxd.
"$rodinia" nw --kind cpu --check --size 65 >"$work/out" 2>&1 && grep -q ' on cpu' "$work/out" &&
	grep -q 'correct$' "$work/out"
ok $? '--kind runs it at an araxd of its own'

# refused STATUS TEXT ARG...: with this exit status, and this on standard error
refused() {
	local status=$1 text=$2 rc=0
	shift 2
	"$rodinia" "$@" >"$work/out" 2>&1 || rc=$?
	[ $rc = "$status" ] && grep -qF -- "$text" "$work/out"
	ok $? "refused: $*"
}

refused 2 "gaussian: --size 1: must be 2 to 8192 (unknowns)" gaussian --size 1
refused 2 "lavamd: --size 65: must be 1 to 64" lavamd --size 65
refused 2 "gaussian: --steps 2: must be 1 to 1" gaussian --steps 2
refused 2 "--size takes a number from 1, not '0'" bfs --size 0
refused 2 "--size takes a number from 1, not '-5'" bfs --size -5
refused 2 "--size takes a number from 1, not '12x'" bfs --size 12x
refused 2 "--seed takes a number up to 9223372036854775807, not 'x'" bfs --seed x
refused 2 "not ' -5'" bfs --seed ' -5'
refused 2 "not '9223372036854775808'" bfs --seed 9223372036854775808
refused 2 "not ' 5'" bfs --size ' 5'
refused 2 "no program 'nonsense'" nonsense
refused 2 'which program?'
refused 2 'one program, or all' bfs nn
for kinds in gpu '' 'cpu,' ',cpu' cpu,gpu openc; do
	refused 2 "--kind takes cpu, opencl or both, not '$kinds'" bfs --kind "$kinds"
done
ARAX_LINK=broker:$work/none refused 1 'arax-rodinia:' bfs
wait "$missing"
rc=$?
cp "$work/missing" "$work/out"
[ $rc = 1 ] && grep -q 'start araxd with --kernels' "$work/out"
ok $? 'where its kernels are missing it says what to do'
# More than a tenant may have: the buffer is named.
cat >"$work/conf" <<'END'
limits { memory = "16M" }
END
"$arax" run --config "$work/conf" --kind cpu --kernels "$kernels" "$rodinia" nw --size 4096 \
	>"$work/out" 2>&1
[ $? = 1 ] && grep -q 'a buffer of 67108864 bytes' "$work/out"
ok $? 'beyond the quota it names the buffer'
"$arax" run --kind cpu --kernels "$kernels" "$rodinia" bfs --size 9 --seed 9223372036854775807 --json \
	>"$work/out" 2>&1 && grep -q '"seed": 9223372036854775807,' "$work/out"
ok $? 'the greatest seed is told as it was'
"$rodinia" --version | grep -q '^arax-rodinia [0-9]' && "$rodinia" --help | grep -q '^usage: ' &&
	"$rodinia" list --json | python3 -c 'import json, sys; assert len(json.load(sys.stdin)) == 9'
ok $? '--version, --help, list --json'

echo "1..$n"
exit $failed
