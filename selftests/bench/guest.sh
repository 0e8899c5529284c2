#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Run the benches in a guest, over the module.

set -euo pipefail

usage() {
	cat <<'END'
usage: selftests/bench/guest.sh OUT [KERNEL] [SECONDS]

Boots KERNEL (default 6.1) with arax.ko, araxd and arax-bench, runs the benches of
tasks' way there and back (null depth sleep handover access stream starpu) over the kernel
link for about SECONDS (default 10) each, and leaves OUT/kernel-NAME.json.
END
}

case ${1-} in
--help) usage; exit 0 ;;
''|-*) usage >&2; exit 2 ;;
esac
top=$(cd "$(dirname "$0")/../.." && pwd)
out=$1 kernel=${2:-6.1} seconds=${3:-10}
b=$top/build
work=$(mktemp -d "${TMPDIR:-/tmp}/arax-bench-guest.XXXXXX")
trap 'rm -rf "$work"' EXIT

cat >"$work/inside.sh" <<'END'
# The system's araxd of this guest; a bench that wants one over the broker too
# starts it itself.
out=/tmp/bench
mkdir -p $out
/opt/arax/bin/araxd --kernels /opt/arax/lib/arax/bench-kernels --no-broker >/tmp/araxd.log 2>&1 &
pid=$!
export ARAX_BENCH_PID=$pid
for i in $(seq 100); do
	ARAX_LINK=kernel /opt/arax/bin/arax info --json 2>/dev/null | grep -q '"epoch": [1-9]' && break
	sleep 0.1
done
rc=0
for name in null depth sleep handover access stream starpu; do
	if timeout 180 /opt/arax/bin/arax-bench $name --link kernel --json \
			--seconds "$1" --rounds 7 >$out/kernel-$name.json 2>/tmp/err; then
		echo "bench: $name"
	else
		echo "bench: $name failed"
		cat /tmp/err
		rm -f $out/kernel-$name.json
		rc=1
	fi
done
kill $pid
wait $pid
[ $rc = 0 ] || tail -n 20 /tmp/araxd.log
exit $rc
END

"$top/scripts/qemu-run" --kernel "$kernel" --mem 2048M --timeout 900 \
	--module "$b/kmod/$kernel/arax.ko" \
	--file "$b/bin/araxd:/opt/arax/bin/" --file "$b/bin/arax:/opt/arax/bin/" \
	--file "$b/bin/arax-bench:/opt/arax/bin/" \
	--file "$b/lib/arax/bench-kernels/arax-bench.so:/opt/arax/lib/arax/bench-kernels/" \
	--file "$b/lib/arax/bench-kernels/arax-bench.json:/opt/arax/lib/arax/bench-kernels/" \
	--file "$work/inside.sh:/root/" --out "/tmp/bench:$work/out" \
	-- "@850 sh /root/inside.sh $seconds"
mkdir -p "$out"
cp "$work/out/"kernel-*.json "$out/"
