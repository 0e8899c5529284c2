#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Checks the models in all interleavings, and that an error would be found: each variant
# with a mistake has to fail.  Needs spin and a C compiler.

set -euo pipefail

cd "$(dirname "$0")"
if ! command -v spin >/dev/null; then
	echo "spin is missing: models not checked (apt-get install spin)"
	exit 4
fi
work=$(mktemp -d /tmp/arax-model.XXXXXX)
trap 'rm -rf "$work"' EXIT

# check MODEL [-DVARIANT]: prints pan's report; its last line says how many errors
check() {
	local dir
	dir=$(mktemp -d "$work/XXXXXX")
	cp "$1" "$dir"
	(cd "$dir" && spin -a "${@:2}" "$1" >/dev/null && gcc -O2 -DSAFETY -o pan pan.c &&
		./pan -m1000000) 2>&1
}

status=0
good=$(check door.pml) || true
if ! grep -q 'errors: 0$' <<<"$good" || grep -q 'max search depth too small' <<<"$good"; then
	echo "$good"
	status=1
fi
grep 'states, stored' <<<"$good"
for v in WEAK_OPEN WEAK_LEAVE WEAK_POST NO_LOOK_OPEN NO_LOOK_LEAVE STEAL; do
	bad=$(check door.pml "-D$v") || true
	if ! grep -q 'errors: [1-9]' <<<"$bad"; then
		echo "$v: no error was found"
		status=1
	fi
done
[ $status != 0 ] || echo "door.pml: no error, and one in each of 6 variants"
exit $status
