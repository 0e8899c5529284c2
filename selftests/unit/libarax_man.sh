#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Every exported symbol has a man page that names it, has the sections that a page
# must have, and renders without a warning.  TAP on standard output.

set -uo pipefail

cd "$(dirname "$0")/../.." || exit 1
man=libarax/man
n=0
failed=0

check() { # WHAT WRONG: fails if WRONG is not empty
	n=$((n + 1))
	if [ -z "$2" ]; then
		echo "ok $n - $1"
	else
		failed=1
		echo "not ok $n - $1"
		# shellcheck disable=SC2001
		sed 's/^/# /' <<<"$2"
	fi
}

symbols=$(sed -n 's/^\t\(arax_[a-z_]*\);$/\1/p' libarax/libarax.map)
[ -n "$symbols" ] || { echo 'Bail out! no symbols in libarax.map'; exit 1; }
declared=$(grep -oE '\barax_[a-z_]+\(' libarax/include/arax/arax.h | tr -d '(' | sort -u)

for s in $symbols; do
	page=$man/man3/$s.3
	wrong=''
	target=$page
	if [ ! -e "$page" ]; then
		wrong='no page'
	else
		so=$(sed -n 's/^\.so //p' "$page")
		[ -n "$so" ] && target=$man/$so
		[ -e "$target" ] || wrong="$page leads to $so, which is not there"
	fi
	if [ -z "$wrong" ]; then
		grep -q "^\.Nm $s\b" "$target" || wrong="$target: $s is not in NAME"
		grep -q "^\.Fn $s\b" "$target" || wrong="$target: $s is not in SYNOPSIS"
	fi
	grep -qx "$s" <<<"$declared" || wrong+=" not declared in arax/arax.h"
	check "$s has a page" "$wrong"
done

# The other way round: what is declared is exported.
check 'every declared call is exported' \
	"$(comm -23 <(echo "$declared") <(sort <<<"$symbols"))"
if [ -e build/lib/libarax.so ]; then
	check 'libarax.so exports what the map lists' "$(diff \
		<(nm -D --defined-only build/lib/libarax.so | sed -n 's/.* T \([a-z_]*\)@.*/\1/p' | sort) \
		<(sort <<<"$symbols"))"
fi
# What makes a descriptor, if only for a moment, may find no room for it.
for page in arax_buffer_create arax_buffer_import arax_module_load arax_open arax_process arax_timeline_create; do
	check "$page.3 has EMFILE" "$(grep -q '^\.It.* Er EMFILE' $man/man3/$page.3 || echo "it has none")"
done
if [ -e build/lib/libarax.a ]; then
	check 'libarax.a has no other names' "$(diff \
		<(nm -g --defined-only build/lib/libarax.a | sed -n 's/^[0-9a-f]* . //p' | sort) \
		<(sort -u <<<"$symbols"))"
fi

for page in "$man"/man?/* selftests/bench/*.1 examples/rodinia/*.1; do
	grep -q '^\.so ' "$page" && continue
	wrong=''
	# mdoc(7): ERRORS is for functions; what a command says is DIAGNOSTICS.
	errors=DIAGNOSTICS
	[[ $page != *.3 ]] || errors=ERRORS
	for section in NAME SYNOPSIS DESCRIPTION $errors 'SEE ALSO'; do
		grep -qx "\.Sh $section" "$page" || wrong+="no section $section"$'\n'
	done
	while read -r name section; do
		[ -e "$man/man$section/$name.$section" ] || [ -e "daemon/man/$name.$section" ] || [ -e "selftests/bench/$name.$section" ] ||
			[ -e "examples/rodinia/$name.$section" ] ||
			wrong+="refers to $name($section), which is not there"$'\n'
	done < <(sed -n 's/^\.Xr \(arax[a-z_.-]*\) \([0-9]\).*/\1 \2/p' "$page")
	if command -v mandoc >/dev/null; then
		wrong+=$(mandoc -Tlint -W warning "$page" 2>&1)
	elif command -v man >/dev/null; then
		wrong+=$(LC_ALL=C.UTF-8 man --warnings -E UTF-8 -l "$page" 2>&1 >/dev/null)
		text=$(MANWIDTH=80 LC_ALL=C.UTF-8 man -E UTF-8 -l "$page" 2>/dev/null | wc -l)
		[ "$text" -gt 20 ] || wrong+="renders as $text lines"
	else
		n=$((n + 1))
		echo "ok $n - ${page#"$man"/} renders # SKIP neither mandoc nor man is installed"
		continue
	fi
	check "${page#"$man"/} is whole and renders" "$wrong"
done
echo "1..$n"
exit "$failed"
