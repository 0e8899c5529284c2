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
for file in "$std"/arax-std[.-]*; do
	files+=(--file "$file:/arax/kernels/${file##*/}")
done

exec scripts/qemu-run --kernel "$kernel" --module "build/kmod/$kernel/arax.ko" \
	--timeout 900 --each 300 --tally "system/kernel-$kernel" \
	--file build/bin/araxd:/arax/bin/araxd \
	--file build/bin/arax:/arax/bin/arax \
	--file build/libexec/arax-worker:/arax/libexec/arax/arax-worker \
	--file "$(realpath build/lib/libarax.so)":/arax/lib/libarax.so.0 \
	"${files[@]}" \
	--file $tests/kernels/systest.so:/arax/kernels/systest.so \
	--file $tests/kernels/systest.json:/arax/kernels/systest.json \
	--file $tests/kernels/systest.cl:/arax/kernels/systest.cl \
	--file $tests/system:/arax/tests/system \
	--file $tests/daemon-death:/arax/tests/daemon-death \
	--file $tests/huge-pages:/arax/tests/huge-pages \
	--file $tests/stand-aside:/arax/tests/stand-aside \
	--file $tests/images/until.so:/arax/tests/images/until.so \
	--file selftests/system/saved.sh:/arax/tests/saved.sh \
	--file selftests/system/in-guest.sh:/arax/in-guest.sh \
	-- '/arax/in-guest.sh system' '/arax/in-guest.sh death' '/arax/in-guest.sh saved' \
	'/arax/in-guest.sh huge' '/arax/in-guest.sh aside other_tenants_go_on' \
	'/arax/in-guest.sh aside killed_with_a_kernel_that_hangs' \
	'/arax/in-guest.sh aside threads_are_limited'
