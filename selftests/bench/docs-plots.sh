#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The plots of docs/benchmarks.md from what `make bench` left.

set -euo pipefail

usage() {
	cat <<'END'
usage: selftests/bench/docs-plots.sh FROM TO

Draws FROM/{broker,kernel}-*.json (build/bench) as TO/NAME.svg (docs/plots), those
of single benches alone.  A bench that was left out keeps the plot that it has.
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
mkdir -p "$2"
cp "$work"/svg/*.svg "$2/"
