#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The figures and plots of docs/benchmarks.md from what `make bench` left.

set -euo pipefail

usage() {
	cat <<'END'
usage: selftests/bench/docs-figures.sh FROM TO

Draws FROM/{broker,kernel}-*.json (build/bench) as TO/plots/NAME.svg (TO: docs), those
of single benches alone, and puts all figures into TO/benchmarks.md, between its two
lines for that.  A bench that was left out keeps the plot that it has, but not its figures.
END
}

case ${1-} in
--help) usage; exit 0 ;;
esac
[ $# = 2 ] || { usage >&2; exit 2; }
here=$(dirname "$0")
work=$(mktemp -d "${TMPDIR:-/tmp}/arax-plots.XXXXXX")
trap 'rm -rf "$work"' EXIT
cp "$1"/{broker,kernel}-*.json "$work/" 2>/dev/null || :
"$here/table.py" table "$work" >/dev/null
mkdir "$work/svg"
gnuplot -e "dir='$work'; docs='$work/svg'" "$here/plot.gp"
sed -i '1a <!-- SPDX-License-Identifier: MIT -->' "$work"/svg/*.svg
mkdir -p "$2/plots"
cp "$work"/svg/*.svg "$2/plots/"

page=$2/benchmarks.md
begin='<!-- figures: begin' end='<!-- figures: end'
if [ "$(grep -c "^$begin" "$page")" != 1 ] || [ "$(grep -c "^$end" "$page")" != 1 ]; then
	echo "docs-figures: $page wants one line \"$begin\" and one \"$end\"" >&2
	exit 1
fi
"$here/table.py" docs "$work" >"$work/tables"
sed -e "/^$begin/r $work/tables" -e "/^$begin/,/^$end/{/^$begin/b;/^$end/b;d}" "$page" >"$work/page"
cat "$work/page" >"$page"
