#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The whole stack over the kernel link: arax.ko and araxd in a guest, and the
# same test programs that run.sh runs over the broker, as an unprivileged user.
# usage: selftests/system/guest.sh 6.1|6.12|debug|next

set -euo pipefail

case "${1:-}" in
6.1 | 6.12 | debug | next) kernel=$1 ;;
*)
	echo "usage: selftests/system/guest.sh 6.1|6.12|debug|next" >&2
	exit 2
	;;
esac
cd "$(dirname "$0")/../.."
tests=build/selftests/system
std=build/lib/arax/kernels

# The manifest names what was compiled, and must find all of it.
files=()
for file in "$std"/arax-std[.-]* "$tests"/kernels/systest.*; do
	files+=(--file "$file:/arax/kernels/${file##*/}")
done

# The demonstration is run as it is, from a tree; once, for what it tries is no kernel's matter.
demo=()
if [ "$kernel" = 6.12 ]; then
	demo=('/arax/in-guest.sh demo')
	for file in build/bin/araxd build/bin/arax build/libexec/arax-worker build/lib/libarax.so.0 \
		"$std"/arax-std[.-]* build/examples/montecarlo build/examples/image-pipeline \
		build/examples/kernels/montecarlo.* examples/two-tenants.sh \
		examples/data/rocket.jpg selftests/system/demo.sh selftests/system/tap.sh; do
		files+=(--file "$(realpath "$file"):/arax/tree/$file")
	done
	files+=(--file "$(command -v bash):/bin/bash"
		--file "$(command -v setpriv):/arax/bin/setpriv"
		--file "build/kmod/$kernel/arax.ko:/arax/tree/build/kmod/arax.ko")
fi

# kmemleak's scans take the longer the more memory there is.
mem=1024M
[ "$kernel" != debug ] || mem=768M

# An emulated machine does less in the same time.
tasks=600
[ "$kernel" != debug ] || tasks=150

# What differs for a 32-bit program: structs, and what a mapping's offset or a time is passed in.  The
# debug kernel has no 32-bit times.
narrow=()
if [ "$kernel" = debug ]; then
	narrow=('echo "1..0 # SKIP no 32-bit times"')
elif [ -e $tests/system32 ]; then
	files+=(--file "$tests/system32:/arax/tests/system32")
	narrow=("/arax/in-guest.sh 32-bit tasks_on_a_udmabuf a_buffer_lent_as_dmabuf objects_that_cant_be
		submissions_that_cant_be explicit_chain explicit_results_at_once continue_runs_all
		cancel_in_a_queue_that_goes_on queues_with_options buffers_tell_of_themselves
		kernels_one_by_one dataflow_by_ranges strided_copy thousands_of_ranges deadline_passes
		own_kernels_run own_memory_as_a_buffer client_killed_with_work worker_computes
		task_waits_for_host two_contexts_share wait_for_all poll_tells_of_ends")
else
	narrow=('echo "1..0 # SKIP no 32-bit libc to build with (gcc-multilib)"')
fi

# The benches over the kernel link; a kernel full of checkers has no time for them.
work=$(mktemp -d "${TMPDIR:-/tmp}/arax-system-guest.XXXXXX")
trap 'rm -rf "$work"' EXIT
bench=()
if [ "$kernel" != debug ]; then
	bench=('/arax/in-guest.sh bench')
	files+=(--out "/tmp/bench:$work" --file build/bin/arax-bench:/arax/bin/arax-bench)
	for file in arax-bench.so arax-bench.json; do
		files+=(--file "build/lib/arax/bench-kernels/$file:/arax/lib/arax/bench-kernels/$file")
	done
fi

# What run.sh has of devices and checks on the broker.
devices=(/arax/in-guest.sh\ {checked,'loss 0','loss 32M','last-loss 0','last-loss 32M',overlap,planned,group}
	'/arax/in-guest.sh followers 60 who_was_to_follow_comes_after_what_runs_again'
	'/arax/in-guest.sh followers 60 who_was_to_follow_is_canceled')
# All of it takes a kernel full of checkers long.
[ "$kernel" != debug ] || devices[0]+=' lies_about_access_are_found out_keeps_what_is_left_out rows_of_nothing bytes_moved
	strided_copy explicit_chain explicit_out_of_core dataflow_by_ranges revoked_buffer crash_is_contained'

# araxd's own matters, which take a kernel full of checkers a minute and a half.
own=('/arax/in-guest.sh saved' '/arax/in-guest.sh shares')
[ "$kernel" != debug ] || own=()

# libgcc_s: pthread_cancel() opens it.
rc=0
scripts/qemu-run --kernel "$kernel" --module "build/kmod/$kernel/arax.ko" \
	--module "build/kmod/$kernel/borrower/borrower.ko" \
	--mem "$mem" --timeout 2400 --each 900 --tally "system/kernel-$kernel" \
	--file build/bin/araxd:/arax/bin/araxd \
	--file build/bin/arax:/arax/bin/arax \
	--file build/libexec/arax-worker:/arax/libexec/arax/arax-worker \
	--file "$(realpath build/lib/libarax.so)":/arax/lib/libarax.so.0 \
	--file "$(realpath "$(cc -print-file-name=libgcc_s.so.1)")":/arax/lib/libgcc_s.so.1 \
	"${files[@]}" \
	--file $tests/system:/arax/tests/system \
	--file $tests/coherent:/arax/tests/coherent \
	--file $tests/reasons:/arax/tests/reasons \
	--file $tests/daemon-death:/arax/tests/daemon-death \
	--file $tests/huge-pages:/arax/tests/huge-pages \
	--file $tests/many-mapped:/arax/tests/many-mapped \
	--file $tests/shares:/arax/tests/shares \
	--file $tests/stand-aside:/arax/tests/stand-aside \
	--file $tests/images/until.so:/arax/tests/images/until.so \
	--file $tests/images/ends.so:/arax/tests/images/ends.so \
	--file $tests/told:/arax/tests/told \
	--file $tests/device-loss:/arax/tests/device-loss \
	--file $tests/planned:/arax/tests/planned \
	--file $tests/one-group:/arax/tests/one-group \
	--file build/test/plugins/queued.so:/arax/lib/queued.so \
	--file selftests/system/saved.sh:/arax/tests/saved.sh \
	--file selftests/system/commands.sh:/arax/tests/commands.sh \
	--file selftests/system/in-guest.sh:/arax/in-guest.sh \
	-- '/arax/in-guest.sh system' "${narrow[@]//$'\n'/ }" '/arax/in-guest.sh death' ${own[@]+"${own[@]}"} \
	'/arax/in-guest.sh commands' '/arax/in-guest.sh reasons' "/arax/in-guest.sh coherent $tasks" ${demo[@]+"${demo[@]}"} \
	'/arax/in-guest.sh mapped' '/arax/in-guest.sh huge' '/arax/in-guest.sh aside other_tenants_go_on other_tenants_go_on_beside_a_long_launch' \
	'/arax/in-guest.sh aside killed_with_a_kernel_that_hangs killed_with_a_long_launch' \
	'/arax/in-guest.sh aside threads_are_limited' "${devices[@]//$'\n'/ }" "${bench[@]}" || rc=$?
[ "$kernel" = debug ] ||
	scripts/tally run "bench/kernel-link-$kernel" selftests/bench/run.sh said "$work" null depth || rc=1
exit "$rc"
