#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Whether a vendor's headers are there is asked when make starts: the answer has to be no
# where they are not, or nothing can be built without them.  And without OpenBLAS arax-blas is
# built for all but processors.

set -uo pipefail

cd "$(dirname "$0")/../.." || exit 1

# answer HEADER FLAGS: what the build says
answer() {
	# shellcheck disable=SC2016 # for make to expand
	make --no-print-directory -n \
		--eval 'header-answer: ; $(info header:$(call gpu_header,'"$1,$2"'))' \
		header-answer 2>/dev/null | sed -n 's/^header://p'
}

# is NUMBER WANTED GOT NAME
is() {
	if [ "$2" = "$3" ]; then
		echo "ok $1 - $4"
	else
		echo "not ok $1 - $4"
		echo "# wanted '$2', got '$3'"
	fi
}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo '#error "of another platform"' >"$folder/refuses.h"
touch "$folder/there.h"

echo 1..5
is 1 '' "$(answer no/such/header.h '')" 'a header that is not there'
is 2 '' "$(answer refuses.h "-I$folder")" 'one that refuses this platform'
is 3 yes "$(answer there.h "-I$folder")" 'one that is there'

# shellcheck disable=SC2016 # for make to expand
files=$(make --no-print-directory -n BLAS_HEADER= \
	--eval 'blas-answer: ; $(info blas:$(notdir $(BLAS_KERNEL)))' blas-answer 2>/dev/null |
	sed -n 's/^blas://p' | tr ' ' '\n')
is 4 'arax-blas.cl arax-blas.json ' "$(grep -x 'arax-blas\.\(so\|json\|cl\)' <<<"$files" | sort | tr '\n' ' ')" \
	'arax-blas without OpenBLAS'
is 5 8 "$(daemon/kernels/leave-out daemon/kernels/blas/arax-blas.json arax-blas.so | grep -c '"signature"')" \
	'which has all kernels'
