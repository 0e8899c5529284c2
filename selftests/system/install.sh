#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# What `make install` leaves is whole: installed below a folder of its own, under a
# prefix that the build never heard of, and used from there.  TAP on standard output.

set -uo pipefail

cd "$(dirname "$0")/../.." || exit 1
# The inner makes have no share of the outer one's jobs.
unset ARAX_LINK MAKEFLAGS MFLAGS MAKELEVEL
work=$(mktemp -d /tmp/arax-install.XXXXXX)
trap 'rm -rf "$work"' EXIT
root=$work/root
prefix=/opt/arax-test
at=$root$prefix
export TMPDIR=$work XDG_RUNTIME_DIR=$work XDG_STATE_HOME=$work/state
n=0
failed=0
# shellcheck source=/dev/null
. selftests/system/tap.sh

try() { # WHAT COMMAND...
	local what=$1 rc=0
	shift
	"$@" >"$work/out" 2>&1 || rc=$?
	ok "$rc" "$what"
}

skip() {
	n=$((n + 1))
	echo "ok $n - $1 # SKIP $2"
}

umask 077
try 'make install' make --no-print-directory install DESTDIR="$root" PREFIX="$prefix"
umask 022
# Not the ends of other paths: a tree in /src is not /usr/src.
! grep -rIlE "(^|[^[:alnum:]_.-])($PWD|$root)([^[:alnum:]_.-]|$)" "$root" >"$work/out"
ok $? 'no file names the tree or DESTDIR'
find "$root" -mindepth 1 ! -name arax-worker \( ! -type l ! -perm -a+r -o -type d ! -perm -a+x \) >"$work/out"
[ ! -s "$work/out" ]
ok $? 'all may read it, whatever the umask was'
[ "$(stat -c %a "$root$prefix/libexec/arax/arax-worker")" = 711 ]
ok $? 'but the worker, which is only to be run'
find "$root" -perm /go+w ! -type l >"$work/out"
[ ! -s "$work/out" ]
ok $? 'and nobody else can write it'
find "$root" -mindepth 1 -maxdepth 1 ! -name opt ! -name usr ! -name etc >"$work/out"
[ ! -s "$work/out" ]
ok $? 'nothing lies elsewhere'

# From here on, nothing of the tree: neither programs nor libraries.
for p in arax araxd arax-bench arax-rodinia arax-sim; do
	try "$p runs" "$at/bin/$p" --version
done
try 'arax devices, at a private araxd' "$at/bin/arax" run --private -- "$at/bin/arax" devices
grep -q cpu0 "$work/out"
ok $? 'which has the processor'
try 'arax kernels' "$at/bin/arax" run --private -- "$at/bin/arax" kernels
grep -q ' vadd ' "$work/out"
ok $? 'which has the installed kernels'
readlink -f "$at/bin/araxd" >"$work/out"
"$at/bin/arax" run --private --verbose -- true >"$work/out" 2>&1 &&
	grep -q "folder=$at/lib/arax/kernels" "$work/out"
ok $? 'from the installed folder'
try 'arax bench finds arax-bench' "$at/bin/arax" bench list
try 'arax sim finds arax-sim' "$at/bin/arax" sim examples/scenarios/two-tenants.json
try 'which finds its kernels' "$at/bin/arax" bench null --seconds 0.3 --rounds 2 --json
try 'arax-rodinia finds its kernels' "$at/bin/arax-rodinia" nw --kind cpu --size 100 --check
"$at/bin/arax" bench nonsense >"$work/out" 2>&1
[ $? = 2 ]
ok $? 'a wrong bench is wrong usage there, too'

export PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_LIBDIR=$at/lib/pkgconfig
mkdir "$work/src"
cp examples/quickstart.c examples/kernels/montecarlo.* "$work/src/"
# Of what is compiled below.
daemon/kernels/leave-out examples/kernels/montecarlo.json montecarlo.ptx montecarlo.co \
	>"$work/src/montecarlo.json"
# shellcheck disable=SC2046 # words
try 'quickstart compiles by pkg-config' gcc -Wall -Wextra -Werror -o "$work/src/quickstart" \
	"$work/src/quickstart.c" $(pkg-config --cflags --libs arax)
try 'and runs' env LD_LIBRARY_PATH="$at/lib" "$at/bin/arax" run --private -- "$work/src/quickstart"
# shellcheck disable=SC2046
try 'a kernel compiles by pkg-config' gcc -Wall -Wextra -Werror -O3 -fPIC -shared \
	-o "$work/src/montecarlo.so" "$work/src/montecarlo.c" $(pkg-config --cflags arax)
try 'and is loaded' "$at/bin/arax" run --private --kernels "$work/src" -- "$at/bin/arax" kernels
grep -q mc_pi "$work/out"
ok $? 'and listed'
# shellcheck disable=SC2046
try 'the static library links' gcc -static -o "$work/src/static" "$work/src/quickstart.c" \
	$(pkg-config --cflags arax) "$at/lib/libarax.a" -pthread
try 'and runs' "$at/bin/arax" run --private -- "$work/src/static"

# docs/kernels.md, word for word, as a user with no more rights than needed: its
# files, and the commands that it gives for them.
mkdir "$work/doc"
as=()
if [ "$(id -u)" = 0 ]; then
	chmod 755 "$work" "$root"
	as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
fi
read_page() { # HEADING [--without FILE]...
	selftests/system/page.py docs/kernels.md "$1" "$work/doc" "${@:2}" >"$work/commands" || return
	[ "$(id -u)" != 0 ] || chown -R 65534:65534 "$work/doc"
}
follow() { # [PATTERN]: all the commands, or those that begin with it
	grep "^${1-}" "$work/commands" >"$work/these" || return
	cat >"$work/follow" <<-END
	set -eu
	cd "$work/doc"
	export PATH=$at/bin:\$PATH LD_LIBRARY_PATH=$at/lib XDG_RUNTIME_DIR=$work/doc TMPDIR=$work/doc HOME=$work/doc
	export XDG_STATE_HOME=$work/doc XDG_CACHE_HOME=$work/doc PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_LIBDIR=$at/lib/pkgconfig
	$(cat "$work/these")
	END
	"${as[@]}" bash "$work/follow"
}
multiplied() {
	grep -qx '7 \* 3 = 21' "$work/out"
}
# has KIND: if not, the reason is in $why
has() {
	"$at/bin/arax" run --kind "$1" true 2>"$work/why" && return
	why=$(grep -o "backend=$1 reason=.*" "$work/why")
	return 1
}

try 'docs/kernels.md has an example' read_page 'Writing a kernel'
[ "$(cd "$work/doc" && echo *)" = 'scale.c scale.json use-scale.c' ] 2>"$work/out"
ok $? 'which is whole'
try 'and can be followed' follow
multiplied
ok $? 'and has the result it should'
grep '^arax run' "$work/commands" >"$work/again"

try 'so is it for OpenCL' read_page 'On GPUs and other OpenCL devices'
if ! has opencl && [ -n "$why" ]; then
	skip 'which can be followed' "$why"
	skip 'and has the result it should' "$why"
else
	try 'which can be followed' follow
	multiplied
	ok $? 'and has the result it should'
fi

# Of a GPU the compiler is here, as a rule, and no device.
PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
without=()
command -v nvcc >/dev/null || without+=(--without scale.ptx)
command -v hipcc >/dev/null || without+=(--without scale.co)
try 'and for CUDA and HIP' read_page 'On CUDA and HIP' "${without[@]}"
for compiler in nvcc hipcc; do
	if command -v "$compiler" >/dev/null; then
		try "its $compiler can be followed" follow "$compiler "
	else
		skip "its $compiler can be followed" "no $compiler"
	fi
done
try 'its manifest, too' follow 'cp '
cp "$work/commands" "$work/gpu"
cp "$work/again" "$work/commands"
try 'which is taken' follow
multiplied
ok $? 'whatever else is in it'
if [ "${#without[@]}" = 4 ]; then
	skip 'what it makes has the parameters it should' 'neither nvcc nor hipcc'
else
	try 'what it makes has the parameters it should' selftests/unit/gpu_images.py "$work/doc/kernels" scale
fi
for kind in cuda hip; do
	sed -n "s/--kind cuda/--kind $kind/p" "$work/gpu" >"$work/commands"
	if [[ " ${without[*]} " == *" scale.$([ $kind = cuda ] && echo ptx || echo co) "* ]]; then
		skip "it runs on $kind" 'it was not compiled'
	elif ! has "$kind" && [ -n "$why" ]; then
		skip "it runs on $kind" "$why"
	else
		try "it runs on $kind" follow
		multiplied
		ok $? 'and has the result it should'
	fi
done

if command -v man >/dev/null; then
	find "$at/share/man" -type f | sort >"$work/pages"
	bad=0
	: >"$work/out"
	while read -r page; do
		lines=$(cd "$at/share/man" && LC_ALL=C.UTF-8 MANWIDTH=80 man -E UTF-8 -l "$page" 2>>"$work/out" | wc -l)
		[ "$lines" -gt 10 ] || { echo "$page: $lines lines" >>"$work/out"; bad=1; }
	done <"$work/pages"
	ok $bad "$(wc -l <"$work/pages") man pages can be read"
else
	skip 'man pages can be read' 'no man'
fi
for page in man1/arax.1 man1/arax-bench.1 man5/araxd.conf.5 man5/arax-tenants.5 man7/arax.7 \
		man8/araxd.8; do
	[ -s "$at/share/man/$page" ]
	ok $? "$page is there"
done

grep -q "^ExecStart=$prefix/bin/araxd" "$at/lib/systemd/system/araxd.service"
ok $? 'the systemd unit starts the installed araxd'
grep -qx 'ConfigurationDirectory=arax arax/tenants.d' "$at/lib/systemd/system/araxd.service"
ok $? 'and has the folder of saved limits made, which araxd could not'
if command -v systemd-analyze >/dev/null; then
	sed "s|$prefix|$at|" "$at/lib/systemd/system/araxd.service" >"$work/araxd.service"
	try 'and is right' systemd-analyze verify --man=no "$work/araxd.service"
else
	skip 'the systemd unit is right' 'no systemd-analyze'
fi
grep -qx arax "$root/usr/lib/modules-load.d/arax.conf"
ok $? 'the module is loaded at boot'
try 'completion is bash' bash -n "$at/share/bash-completion/completions/arax"
# shellcheck disable=SC2016 # for that shell
try 'and completes' bash -c '. "$1"
	COMP_WORDS=(arax ten) COMP_CWORD=1; _arax; [ "${COMPREPLY[*]}" = tenant ] &&
	COMP_WORDS=(arax tenant set --s) COMP_CWORD=3; _arax; [ "${COMPREPLY[*]}" = --save ]' \
	- "$at/share/bash-completion/completions/arax"

# The sample is what araxd has anyway.
try 'the sample configuration is right' "$at/bin/arax" run --private \
	--config "$at/share/doc/arax/araxd.conf.sample" -- true

# What pages refer to, by a path as in the tree.
named=0
for f in $(grep -rhoE '\b(docs|examples)/[a-z/\-]+(\.(md|json))?' "$at/share/man" | tr -d "\\\\" | sort -u); do
	[ -e "$at/share/doc/arax/$f" ]
	ok $? "$f, which the manual names"
	named=$((named + 1))
done
[ "$named" -ge 4 ]
ok $? 'which are some'

# And what docs show or point to, but for sources.
while read -r f; do
	[ -e "$at/share/doc/arax/docs/$f" ]
	ok $? "$f, which docs point to"
done < <(grep -hoE '\]\(([a-z/-]+\.(md|svg)|\.\./README\.md)' "$at"/share/doc/arax/docs/*.md |
	cut -c3- | sort -u)
try 'and an example of it is simulated' "$at/bin/arax" sim \
	"$at/share/doc/arax/examples/scenarios/two-tenants.json"

version=$("$at/bin/arax" --version)
src=$(echo "$root"/usr/src/arax-*)
[ "$version" = "arax ${src##*/arax-}" ] && grep -qx "ARAX_VERSION := ${version#arax }" "$src/Kbuild"
ok $? 'one version is everywhere'

kdir=build/kernels/6.1/build
if [ -e build/kernels/6.1/stamp ]; then
	try 'the sources for DKMS build' \
		make -s -C "$(realpath $kdir)" M="$src" CC=gcc modules
	[ -s "$src/arax.ko" ]
	ok $? 'a module'
else
	skip 'the sources for DKMS build' 'no build/kernels/6.1'
fi

other="$work/another root"
try 'another prefix later, and a folder with a blank' \
	make --no-print-directory install DESTDIR="$other" PREFIX=/usr
grep -q '^prefix=/usr$' "$other/usr/lib/pkgconfig/arax.pc" &&
	grep -q '^ExecStart=/usr/bin/araxd' "$other/usr/lib/systemd/system/araxd.service"
ok $? 'is in the files'
touch "$other/usr/lib/arax/kernels/mine.json"
try 'make uninstall by who could not install the module' make --no-print-directory uninstall \
	DESTDIR="$other" PREFIX=/usr WITH_KMOD=no
[ -e "$other/usr/src/${src##*/}/Kbuild" ] && [ ! -e "$other/usr/bin/arax" ]
ok $? 'leaves what is of it'
try 'make uninstall, with a relative folder' make --no-print-directory uninstall \
	DESTDIR="$(realpath --relative-to=. "$other")" PREFIX=/usr
find "$other" >"$work/out"
[ "$(cd "$other" && find . ! -type d)" = ./usr/lib/arax/kernels/mine.json ]
ok $? 'leaves what it did not install'
[ "$(cd "$other" && find . -path '*/arax*' -type d | sort | tr '\n' ' ')" = './usr/lib/arax ./usr/lib/arax/kernels ' ]
ok $? 'and no other folder of its own'

echo "1..$n"
exit $failed
