#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Run every bench on this machine, over the broker link.

set -euo pipefail

usage() {
	cat <<'END'
usage: selftests/bench/run.sh measure OUT [SECONDS]
       selftests/bench/run.sh smoke
       selftests/bench/run.sh said DIR NAME...

  measure  run every bench for about SECONDS (default 10) each, leave
           OUT/broker-NAME.json
  smoke    run every bench for a moment and see that it says all it should; no
           figure is judged.  Prints TAP
  said     look whether DIR/kernel-NAME.json, from a guest, says all it should.
           Prints TAP
END
}

top=$(cd "$(dirname "$0")/../.." && pwd)
bench=$top/build/bin/arax-bench
names=(floors null depth sleep handover access stream starpu grcuda overhead graph fair cholesky sharing rodinia opencl cuda outofcore simscale elastic grcuda-sim cholesky-sim)

measure() {
	local out=$1 seconds=${2:-10} name
	mkdir -p "$out"
	for name in "${names[@]}"; do
		echo "bench: $name"
		"$bench" "$name" --link broker --json --seconds "$seconds" >"$out/.tmp"
		mv "$out/.tmp" "$out/broker-$name.json"
	done
}

n=0 bad=0
check() {
	n=$((n + 1))
	if [ "$2" = 0 ]; then
		echo "ok $n - $1"
	else
		echo "not ok $n - $1"
		sed 's/^/# /' "$work/out" "$work/err"
		bad=1
	fi
}

# refused NAME ARG...: a usage error says so and exits with 2
refused() {
	local what=$1 rc=0
	shift
	"$bench" "$@" >"$work/out" 2>"$work/err" || rc=$?
	[ "$rc" = 2 ] && grep -q '^usage:' "$work/err" && rc=0 || rc=1
	check "$what is refused" "$rc"
}

# groups PID: the cgroups of a bench
groups() {
	[ -z "$cgroups" ] ||
		find "$cgroups" -maxdepth 1 \( -name "arax-bench-$1" -o -name "arax-bench-$1-*" \)
}

# below PID: what there is of a bench's folders, the processes in them, and its cgroups
below() {
	find "$work" -mindepth 1 -maxdepth 1 -name 'arax-bench.*'
	# Processes that name its folder, but for this one's own grep.
	grep -laF -f <(echo "$work/arax-bench") /proc/[0-9]*/cmdline 2>/dev/null || :
	# One that was killed earlier, and had the same number, may have left some.
	groups "$1" | grep -vxF "$earlier" || :
}

# killed NAME: what a bench starts and makes, it ends and takes away, also when it is killed
killed() {
	local pid rc=0 in=()
	cgroups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
	earlier=$([ -z "$cgroups" ] || find "$cgroups" -maxdepth 1 -name 'arax-bench-*'; echo none)
	"$bench" "$1" --seconds 60 >"$work/out" 2>"$work/err" &
	pid=$!
	# Until somebody serves, and somebody is in a cgroup if there is one.
	while kill -0 "$pid" 2>/dev/null; do
		sleep 0.1
		ls "$work"/arax-bench.*/arax.sock >/dev/null 2>&1 || continue
		mapfile -t in < <(groups "$pid" | while read -r group; do
			find "$group" -name cgroup.procs 2>/dev/null
		done)
		if [ ${#in[@]} -eq 0 ]; then
			[ "$1" != null ] || break
		elif [ -n "$(cat "${in[@]}" 2>/dev/null)" ]; then
			break
		fi
	done
	kill -TERM "$pid" 2>/dev/null || :
	wait "$pid" || rc=$?
	if [ "$rc" = 0 ] && grep -q 'skipped:' "$work/out"; then
		n=$((n + 1))
		echo "ok $n - nothing is left of $1 after SIGTERM # SKIP $1 is left out here"
		return
	fi
	[ "$rc" = 143 ] || echo "exit status $rc" >>"$work/err"
	for _ in $(seq 600); do
		[ -n "$(below "$pid")" ] || break
		sleep 0.1
	done
	below "$pid" >>"$work/err"
	[ "$rc" = 143 ] && [ -z "$(below "$pid")" ] && rc=0 || rc=1
	check "nothing is left of $1 after SIGTERM" "$rc"
}

# As whom a process left groups who was killed, and whose number has come around.
again() {
	local rc=0 group
	cgroups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
	if [ -z "$cgroups" ] || ! mkdir "$cgroups/arax-bench-$$-try" 2>/dev/null; then
		n=$((n + 1))
		echo "ok $n - groups of one that was killed are made anew # SKIP no cgroup can be made here"
		return
	fi
	rmdir "$cgroups/arax-bench-$$-try"
	# shellcheck disable=SC2016 # $$ is that of the shell which becomes the bench
	timeout 120 bash -c 'mkdir -p "$1/arax-bench-$$/level2/level3" && echo $$ >"$2.pid" &&
		exec "$3" null --json --seconds 0.3 --rounds 2' again "$cgroups" "$work/again" \
		"$bench" >"$work/out" 2>"$work/err" || rc=$?
	group=$cgroups/arax-bench-$(cat "$work/again.pid")
	grep -q '"tenant_depth": 3' "$work/out" && [ ! -d "$group" ] || rc=1
	rmdir "$group/level2/level3" "$group/level2" "$group" 2>/dev/null || :
	check 'groups of one that was killed are made anew' "$rc"
}

# A tree like build/ whose bench kernels return at once.
make_idle() {
	local lib=$work/idle/lib/arax/bench-kernels/arax-bench.so
	mkdir -p "$work/idle/bin" "$work/idle/lib"
	cp "$bench" "$work/idle/bin/"
	ln -s "$top/build/bin/araxd" "$top/build/bin/arax" "$work/idle/bin/"
	cp -rs "$top/build/lib/arax" "$work/idle/lib/"
	rm "$lib"
	{
		echo '#include <arax/kernel.h>'
		sed -n '/^ARAX_KERNEL.*;$/s/;$/ { return 0; }/p' "$top/selftests/bench/kernels/kernels.c"
	} | gcc -D_GNU_SOURCE -I"$top/uapi" -I"$top/libarax/include" -shared -fPIC -x c -o "$lib" -
}

# idle NAME WHAT: a bench that measures nothing has no figure, and says WHAT; or it was left out
idle() {
	local rc=0
	timeout 120 "$work/idle/bin/arax-bench" "$1" --json --seconds 0.3 --rounds 2 \
		>"$work/out" 2>"$work/err" || rc=$?
	if grep -q '"skipped"' "$work/out"; then
		n=$((n + 1))
		echo "ok $n - $1 fails if its kernel does nothing # SKIP $1 is left out here"
		return
	fi
	[ "$rc" = 1 ] && [ ! -s "$work/out" ] && grep -q "$2" "$work/err" && rc=0 || rc=1
	check "$1 fails if its kernel does nothing" "$rc"
}

# said DIR NAME...: over the module, see selftests/system/guest.sh
said() {
	local dir=$1 name rc
	shift
	work=$(mktemp -d "${TMPDIR:-/tmp}/arax-said.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	for name; do
		rc=0
		"$top/selftests/bench/table.py" check "$name" "$dir/kernel-$name.json" \
			>"$work/out" 2>"$work/err" &&
			grep -q '"link": "kernel"' "$dir/kernel-$name.json" || rc=1
		check "$name says all it should over the module" "$rc"
	done
	echo "1..$n"
	exit "$bad"
}

smoke() {
	local name plot rc
	work=$(mktemp -d "${TMPDIR:-/tmp}/arax-smoke.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	export TMPDIR=$work
	mkdir "$work/report"
	for name in "${names[@]}"; do
		rc=0
		timeout 120 "$bench" "$name" --json --seconds 0.3 --rounds 2 \
			>"$work/out" 2>"$work/err" || rc=$?
		[ "$rc" != 0 ] || "$top/selftests/bench/table.py" check "$name" "$work/out" \
			>>"$work/err" 2>&1 || rc=$?
		check "$name runs and says all it should" "$rc"
		cp "$work/out" "$work/report/broker-$name.json"
	done
	rc=0
	! grep -E '"met": (true|false)' "$work/report/broker-grcuda.json" >"$work/out" || rc=1
	check 'grcuda is not judged without its largest programs' "$rc"
	# The core's own bench leaves another file there.
	echo '{"name": "core"}' >"$work/report/core.json"
	rc=0
	"$top/selftests/bench/table.py" table "$work/report" >"$work/out" 2>"$work/err" || rc=$?
	for name in "${names[@]}"; do
		grep -q "^$name  *[bn]" "$work/report/table.txt" || rc=1
	done
	check 'the table has them all' "$rc"
	if command -v gnuplot >/dev/null; then
		rc=0
		gnuplot -e "dir='$work/report'" "$top/selftests/bench/plot.gp" >"$work/out" 2>"$work/err" || rc=$?
		for plot in ratios rounds access grcuda overhead outofcore graph sharing elastic \
			simscale grcuda-sim cholesky-sim; do
			[ -s "$work/report/$plot.png" ] || rc=1
		done
		# What was left out for want of OpenCL, cgroups or OpenBLAS has nothing to draw.
		for name in rodinia fair cholesky; do
			grep -q '"parts": \[\]' "$work/report/broker-$name.json" ||
				[ -s "$work/report/$name.png" ] || rc=1
		done
		! grep -i 'valid points' "$work/err" || rc=1
		check 'so have the plots' "$rc"
		mkdir "$work/docs"
		printf '%s\n' before '<!-- figures: begin -->' old '<!-- figures: end -->' after >"$work/docs/benchmarks.md"
		rc=0
		"$top/selftests/bench/docs-figures.sh" "$work/report" "$work/docs" >"$work/out" 2>"$work/err" || rc=$?
		for name in elastic simscale grcuda-sim cholesky-sim; do
			grep -q '</svg>' "$work/docs/plots/$name.svg" || rc=1
			grep -q "^| $name | - | .* |\$" "$work/docs/benchmarks.md" || rc=1
		done
		[ "$(grep -v '^|\|^$\|details>' "$work/docs/benchmarks.md" | tr '\n' ,)" = \
			'before,<!-- figures: begin -->,<!-- figures: end -->,after,' ] || rc=1
		cp "$work/docs/benchmarks.md" "$work/page"
		"$top/selftests/bench/docs-figures.sh" "$work/report" "$work/docs" >>"$work/out" 2>>"$work/err" || rc=1
		cmp -s "$work/page" "$work/docs/benchmarks.md" || rc=1
		check 'and those of the documentation, with its table' "$rc"
		echo 'no lines for it' >"$work/docs/benchmarks.md"
		rc=0
		! "$top/selftests/bench/docs-figures.sh" "$work/report" "$work/docs" >"$work/out" 2>"$work/err" || rc=1
		grep -q 'wants one line' "$work/err" || rc=1
		grep -q '^no lines' "$work/docs/benchmarks.md" || rc=1
		check 'a page that has no place for it stays as it is' "$rc"
		# None of them has a floor or rounds.
		mkdir "$work/bare"
		echo '{"name": "core"}' >"$work/bare/core.json"
		rc=0
		"$top/selftests/bench/table.py" table "$work/bare" >"$work/out" 2>"$work/err" || rc=$?
		gnuplot -e "dir='$work/bare'" "$top/selftests/bench/plot.gp" >>"$work/out" 2>>"$work/err" || rc=1
		check 'a report with nothing to plot has no plots' "$rc"
	else
		n=$((n + 1))
		echo "ok $n - so have the plots # SKIP no gnuplot (scripts/setup bench)"
	fi
	# Who can make no cgroups has a user's default limits.
	as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
	if [ "$(id -u)" = 0 ] && "${as[@]}" test -x "$bench"; then
		chmod 755 "$work"
		mkdir "$work/user"
		chown 65534:65534 "$work/user"
		rc=0
		TMPDIR=$work/user timeout 120 "${as[@]}" "$bench" null --seconds 0.3 --rounds 2 \
			>"$work/out" 2>"$work/err" || rc=$?
		check 'null runs for an unprivileged user' "$rc"
	else
		n=$((n + 1))
		echo "ok $n - null runs for an unprivileged user # SKIP not root, or others can't run $bench"
	fi
	make_idle
	idle stream "the kernel's result is wrong"
	idle fair 'a program failed'
	idle overhead 'bench_work: calls do nothing'
	idle null 'the other clients did not'
	idle access "did not work on the client's pages"
	idle handover "did not work on the client's pages"
	idle sharing "application's result is wrong"
	# An araxd that serves, and comes to a bad end.
	cat >"$work/araxd" <<-END
		#!/bin/bash
		trap 'kill \$pid' TERM
		"$top/build/bin/araxd" "\$@" &
		pid=\$!
		wait \$pid
		wait \$pid
		exit 7
	END
	chmod +x "$work/araxd"
	rc=0
	ARAX_BENCH_ARAXD=$work/araxd timeout 120 "$bench" handover --seconds 0.3 --rounds 2 \
		>"$work/out" 2>"$work/err" || rc=$?
	[ "$rc" = 1 ] && grep -q 'araxd exited with 7' "$work/err" && rc=0 || rc=1
	check 'an araxd that fails at its end fails the bench' "$rc"
	killed null
	killed fair
	again
	refused 'an unknown bench' nonsense
	refused 'an unknown link' null --link pigeon
	refused 'a time of no length' null --seconds 0
	refused 'no bench at all'
	rc=0
	"$bench" --help >"$work/out" 2>"$work/err" || rc=$?
	check 'help is given' "$rc"
	echo "1..$n"
	exit "$bad"
}

case ${1-} in
measure) [ $# -ge 2 ] || { usage >&2; exit 2; }; measure "${@:2}" ;;
smoke) smoke ;;
said) [ $# -ge 3 ] || { usage >&2; exit 2; }; said "${@:2}" ;;
--help) usage ;;
*) usage >&2; exit 2 ;;
esac
