#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The daemon's pages render without a warning; every key that the parser knows is in
# araxd.conf(5) and in the sample, every key of a manifest in araxd.conf(5), and every
# option and variable of the environment in araxd(8).

set -uo pipefail

cd "$(dirname "$0")/../.." || exit 1
n=0
failed=0

check() { # WHAT WRONG: fails if WRONG is not empty
	n=$((n + 1))
	if [ -z "$2" ]; then
		echo "ok $n - $1"
	else
		failed=1
		echo "not ok $n - $1"
		echo "# ${2//$'\n'/$'\n'# }"
	fi
}

for page in daemon/man/araxd.8 daemon/man/araxd.conf.5; do
	if command -v groff >/dev/null; then
		check "$page renders" "$(groff -mdoc -Tutf8 -ww -z "$page" 2>&1)"
	else
		n=$((n + 1))
		echo "ok $n - $page renders # SKIP groff is not installed"
	fi
done

keys=$(sed -n 's/.*CFG_\(STR\|INT\|BOOL\|STR_LIST\|SEC\)("\([a-z_]*\)".*/\2/p' daemon/config.c | sort -u)
[ "$(wc -w <<<"$keys")" -gt 20 ] || { echo 'Bail out! no keys found in daemon/config.c'; exit 1; }
for key in $keys; do
	wrong=''
	grep -qE "^\.(It Cm|Ss) $key\b" daemon/man/araxd.conf.5 || wrong='not in araxd.conf(5)'
	grep -qE "^[[:space:]]*#?$key\b" daemon/araxd.conf.sample ||
		grep -qE "^#?[[:space:]]*$key\b" daemon/araxd.conf.sample ||
		wrong+=' not in the sample'
	check "key $key" "$wrong"
done

# Two are araxd's own: nobody writes them.
keys=$(grep -rhoE 'strcmp\(key, "[a-z-]+"\)' daemon/backends daemon/filters --include='*.c' |
	grep -oE '"[a-z-]+"' | tr -d '"' | grep -vx 'careful\|group' | sort -u)
[ "$(wc -w <<<"$keys")" -ge 30 ] || { echo 'Bail out! no options found in daemon/backends'; exit 1; }
for key in $keys; do
	wrong=''
	grep -qE -- "^\.(It )?Cm .*\b${key//-/\\\\-}\b" daemon/man/araxd.conf.5 || wrong='not in araxd.conf(5)'
	check "option $key" "$wrong"
done

keys=$(tr '\n' ' ' <daemon/kernels/manifest.c | grep -oE ' known\[\] = \{[^}]*\}' | grep -oE '"[a-z_]+"' |
	tr -d '"' | sort -u)
[ "$(wc -w <<<"$keys")" -ge 18 ] || { echo 'Bail out! no keys found in daemon/kernels/manifest.c'; exit 1; }
for key in $keys; do
	wrong=''
	sed -n '/^\.Sh KERNEL LIBRARIES/,$p' daemon/man/araxd.conf.5 |
		grep -E "^\.(It )?Cm $key( |$)|\"$key\":" >/dev/null || wrong='not in araxd.conf(5)'
	check "manifest key $key" "$wrong"
done

keys=$(sed -n 's/.*CFG_\(STR\|SEC\)("\([a-z_.]*\)".*/\2/p' libarax/admin/saved.c | sort -u)
[ "$(wc -w <<<"$keys")" -ge 7 ] || { echo 'Bail out! no keys found in libarax/admin/saved.c'; exit 1; }
for key in $keys; do
	wrong=''
	# The keys are those of arax tenant set.
	[ "$key" = tenant ] || grep -q "^\.It Va .*\b${key//./\\.}\b" libarax/man/man1/arax.1 ||
		wrong='not in arax(1)'
	[ "$key" = tenant ] || grep -q "\b${key//./\\.}" docs/operations.md ||
		wrong+=' not in docs/operations.md'
	check "saved key $key" "$wrong"
done

functions=$(grep -hoE '^static inline .*\b\*?arax_[a-z_]+\(|^#define ARAX_[A-Z]+\(|^static __device__ inline .*\barax_[a-z]+\(' \
	libarax/include/arax/kernel.h libarax/include/arax/gpu.h | grep -oE '(arax|ARAX)_[A-Za-z_]+\($')
[ "$(wc -w <<<"$functions")" -ge 10 ] || { echo 'Bail out! no functions found in libarax/include'; exit 1; }
for function in $functions; do
	# What others here are made of.
	[ "$function" != 'arax_share(' ] || continue
	wrong=''
	grep -qF -- "$function" docs/kernels-reference.md || wrong='not in docs/kernels-reference.md'
	check "function $function)" "$wrong"
done

options=$(sed -n 's/^\t{ "\([a-z-]*\)", .*_argument.*/\1/p' daemon/options.c)
[ -n "$options" ] || { echo 'Bail out! no options found in daemon/options.c'; exit 1; }
for option in $options; do
	wrong=''
	grep -q -- "\\\\-${option//-/\\\\-}\b" daemon/man/araxd.8 || wrong='not in araxd(8)'
	check "option --$option" "$wrong"
done

variables=$(grep -rohE 'getenv\("[A-Z_]+"\)' --include=*.c daemon | grep -oE '[A-Z_]{3,}' | sort -u)
[ "$(wc -w <<<"$variables")" -ge 10 ] || { echo 'Bail out! no variables found in daemon'; exit 1; }
for variable in $variables; do
	wrong=''
	# rocBLAS's own.
	[ "$variable" = ROCBLAS_TENSILE_LIBPATH ] ||
		grep -qE "^\.It Ev (.* , )?$variable\b" daemon/man/araxd.8 || wrong='not in araxd(8)'
	check "variable $variable" "$wrong"
done

signatures=$(sed -n 's/.*"signature": "\(.*\)",$/\1/p' daemon/kernels/std/*.json daemon/kernels/blas/*.json)
[ "$(wc -l <<<"$signatures")" -ge 60 ] || { echo 'Bail out! no signatures found in daemon/kernels'; exit 1; }
while read -r signature; do
	wrong=''
	grep -qF "| \`$signature\`" docs/kernels-reference.md || wrong="not in docs/kernels-reference.md: $signature"
	check "kernel ${signature%%(*}" "$wrong"
done <<<"$signatures"

echo "1..$n"
exit $failed
