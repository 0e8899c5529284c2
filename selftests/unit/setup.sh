#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# scripts/setup on machines that there are not: what is installed, what the apt sources
# have and who one is are made up, and what would be done is written down.  TAP.

set -uo pipefail

cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
n=0
failed=0
# shellcheck source=/dev/null
. selftests/system/tap.sh

# A tree with a list of its own, and a machine whose state are files: installed, sources
# (what they have), lists (what is known of it), broken (what can't be installed), uid.
mkdir -p "$work/scripts" "$work/bin"
cp scripts/setup "$work/scripts/"
printf 'build: need1 need2 use1? use2?\n' >"$work/scripts/packages"
tool() { # NAME: its text comes on standard input
	{ printf '#!/bin/bash\ncd %q || exit\n' "$work"; cat; } >"$work/bin/$1"
	chmod +x "$work/bin/$1"
}
tool dpkg-query <<'EOF'
sed 's/$/ installed/' installed
EOF
tool id <<'EOF'
cat uid
EOF
tool sudo <<'EOF'
echo "sudo" >>did
exec "$@"
EOF
tool sleep </dev/null
tool apt-cache <<'EOF'
[ "$1" = show ] && exec grep -qx "$2" lists
echo ' 100 /var/lib/dpkg/status'
[ ! -s lists ] || echo ' 500 http://deb.example.org bookworm/main amd64 Packages'
EOF
tool apt-get <<'EOF'
while [ "$1" = -q ] || [ "$1" = -o ]; do
	[ "$1" = -q ] || shift
	shift
done
verb=$1
shift
if [ "$verb" = update ]; then
	echo update >>did
	cat sources >lists
	exit
fi
echo "install ${*//-*/}" >>did
for p; do
	[[ $p != -* ]] || continue
	grep -qx "$p" lists && ! grep -qx "$p" broken || exit 100
done
for p; do [[ $p == -* ]] || echo "$p" >>installed; done
EOF
for t in bash env cat sed grep tr sort dirname; do
	ln -s "$(command -v $t)" "$work/bin/$t"
done

machine() { # INSTALLED SOURCES LISTS [UID [BROKEN]]
	printf '%s\n' "$1" | tr ' ' '\n' >"$work/installed"
	printf '%s\n' "$2" | tr ' ' '\n' >"$work/sources"
	printf '%s' "${3:+$3 }" | tr ' ' '\n' >"$work/lists"
	echo "${4-0}" >"$work/uid"
	printf '%s\n' "${5-none}" >"$work/broken"
	rm -f "$work/did"
	touch "$work/did"
}

setup() { # STATUS DID: its exit status, and what was done in one line
	local rc=0 did
	PATH=$work/bin "$work/scripts/setup" build >"$work/out" 2>&1 || rc=$?
	did=$(grep -v sudo "$work/did" | tr -s ' \n' ' ')
	echo "status $rc, did: $did" >>"$work/out"
	[ "$rc" = "$1" ] && [ "$did" = "${2:+$2 }" ]
}
says() { grep -qF -- "$1" "$work/out"; }

all='need1 need2 use1 use2'
machine "$all" "$all" ''
setup 0 ''
ok $? 'nothing is done where all is there'
machine '' "$all" ''
setup 0 'update install need1 need2 install use1 use2'
ok $? 'what is missing is installed'
: >"$work/did"
setup 0 ''
ok $? 'once'
machine 'need1 use1 use2' "$all" 'need1'
setup 0 'update install need2'
ok $? 'where something is required the sources are asked'
machine 'need1 need2' 'need1 need2 use1' ''
setup 0 'update install use1' && says 'going on without use2'
ok $? 'what the sources lack is told, if it is not required'
: >"$work/did"
setup 0 '' && says 'going on without use2'
ok $? 'and they are not asked for it again'
machine 'need1' 'need1' ''
setup 1 'update install need2 update install need2 update install need2' &&
	says 'could not install: need2'
ok $? 'but what is required is'
machine 'need1 need2' "$all" "$all" 0 use1
setup 0 'install use1 use2 update install use1 use2' && says 'without use1 use2'
ok $? 'what is not required may be broken'
machine '' "$all" "$all" 0 need1
setup 1 'update install need1 need2 update install need1 need2 update install need1 need2'
ok $? 'and what is required may not'

machine "need1" "$all" '' 1000
setup 0 'update install need2 install use1 use2' && grep -q sudo "$work/did"
ok $? 'who is not root takes sudo'
rm "$work/bin/sudo"
machine "need1" "$all" "$all" 1000
setup 1 '' && says 'these are missing: need2' && ! says 'missing: need2 use1'
ok $? 'without sudo he is told what is required'
machine "need1 need2" "$all" "$all" 1000
setup 0 '' && says 'going on without use1 use2'
ok $? 'and goes on if nothing is'
machine "need1 need2" "$all" '' 1000
setup 0 '' && says 'going on without use1 use2'
ok $? 'also if nothing is known of the sources'

echo "1..$n"
exit $failed
