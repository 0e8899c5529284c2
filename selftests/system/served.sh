# SPDX-License-Identifier: MIT
# shellcheck shell=bash

# await_line PATTERN FILE: until it has come there, for a minute
await_line() {
	for _ in $(seq 600); do
		! grep -q "$1" "$2" || break
		sleep 0.1
	done
}

# served CONF KERNELS PROGRAM...: by an araxd of its own, which says at the end what it has done;
# its log is in $work/log
served() {
	local pid rc conf=$1 kernels=$2
	shift 2
	: >"$work/log"
	build/bin/araxd --user --no-kernel --config "$conf" --kernels "$kernels" \
		--socket "$work/served.sock" >>"$work/log" 2>&1 &
	pid=$!
	await_line 'araxd is ready' "$work/log"
	rc=0
	ARAX_LINK=broker:$work/served.sock "$@" || rc=$?
	kill -USR1 "$pid"
	await_line 'device memory device=0' "$work/log"
	kill "$pid"
	wait "$pid" || rc=$?
	cat "$work/log"
	return "$rc"
}

# With less memory than the program has data: pieces go for others, and no byte is lost.
evicts() {
	grep -q 'device memory device=0 bytes=2097152 .* evictions=[1-9]' "$work/log"
}
