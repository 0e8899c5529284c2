#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# araxd as a process: exit status, readiness, one instance a socket, a clean
# end, and no processor time while idle.  Prints TAP.

set -u
araxd=${1:?usage: daemon_main.sh ARAXD FAKE_MODULE}
fake_module=${2:?usage: daemon_main.sh ARAXD FAKE_MODULE}
dir=$(mktemp -d)
export XDG_STATE_HOME=$dir/state
mkdir "$dir/state"
sock=$dir/arax.sock
n=0
bad=0
pid=

cleanup() {
	[ -n "$pid" ] && kill -9 "$pid" 2>/dev/null
	rm -rf "$dir"
}
trap cleanup EXIT

ok() {	# STATUS NAME
	n=$((n + 1))
	if [ "$1" = 0 ]; then
		echo "ok $n - $2"
	else
		echo "not ok $n - $2"
		bad=1
	fi
}

start() {	# [OPTION...]
	mkfifo "$dir/ready"
	"$araxd" --user --socket "$sock" --ready-fd 7 "$@" 7>"$dir/ready" 2>"$dir/log" &
	pid=$!
	byte=$(timeout 60 head -c 1 "$dir/ready")
	rm "$dir/ready"
}

stop() {	# SIGNAL
	kill "-$1" "$pid"
	wait "$pid"
	status=$?
	pid=
}

ticks() { awk '{ print $14 + $15 }' "/proc/$pid/stat"; }

# Nothing is left to do some time after the start: how long that takes is the machine's affair.
idles() {
	for _ in $(seq 20); do
		before=$(ticks)
		sleep 2
		[ $(($(ticks) - before)) -gt 1 ] || return 0
	done
	return 1
}

# A line of the log that a signal brings, in its own time.
logs() {	# PATTERN
	for _ in $(seq 600); do
		grep -q "$1" "$dir/log" && return 0
		sleep 0.1
	done
	return 1
}

"$araxd" --help >"$dir/out" 2>&1 && grep -q '^usage: araxd' "$dir/out"
ok $? "--help"
[ "$("$araxd" --version)" != "" ]
ok $? "--version"
"$araxd" --what 2>/dev/null
[ $? = 2 ]
ok $? "wrong usage exits with 2"
"$araxd" --user --config "$dir/none" 2>/dev/null
[ $? = 1 ]
ok $? "a configuration that isn't there exits with 1"
"$araxd" --user --take-over 2>"$dir/over"
[ $? = 2 ] && grep -q 'about the module' "$dir/over"
ok $? "without the module there is nothing to take over"
env -u XDG_RUNTIME_DIR "$araxd" --user 2>/dev/null
[ $? = 1 ]
ok $? "no place for a private socket exits with 1"
timeout 60 "$araxd" --user --no-kernel --socket '' 2>"$dir/over"
[ $? = 2 ] && grep -q -- '--socket takes a path' "$dir/over"
ok $? "a socket without a path is wrong usage"
timeout 60 "$araxd" --user --no-kernel --tenants '' 2>"$dir/over"
[ $? = 2 ] && grep -q -- '--tenants takes a folder' "$dir/over"
ok $? "so are limits without a folder"
# More than an address has room for, and more than araxd would take of any path.
long=$dir/$(printf 'x%.0s' {1..60})
longer=$long/$(printf 'x%.0s' {1..200})
for path in "$long$long" "$longer"; do
	timeout 60 "$araxd" --user --socket "$path" 2>"$dir/over"
	[ $? = 1 ] && grep -q "socket path too long path=$path limit=107 remedy=\"give a shorter one by --socket or link.socket\"" "$dir/over"
	ok $? "a socket's path has 107 bytes at most: ${#path} are refused, and how to mend it is said"
	XDG_RUNTIME_DIR=$path timeout 60 "$araxd" --user 2>"$dir/over"
	[ $? = 1 ] && grep -q 'socket path too long.* limit=107 remedy="give a shorter one by --socket or link.socket' "$dir/over"
	ok $? "and so it is of the folder that it is in by default"
done
timeout 60 "$araxd" --user --socket "$sock" --kind cpu,bogus 2>"$dir/over"
[ $? = 2 ] && grep -q 'kind "bogus": must be' "$dir/over"
ok $? "so is a kind that there isn't"
echo "worker { cgroup = \"$dir/typo\" }" >"$dir/conf"
chmod 600 "$dir/conf"
timeout 60 "$araxd" --user --socket "$sock" --config "$dir/conf" 2>"$dir/over"
[ $? = 1 ] && grep -q 'typo.*not on a cgroup2 file system' "$dir/over" && [ ! -e "$dir/typo" ]
ok $? "no folder is made where workers can't have cgroups"
"$araxd" --user --socket "$dir/no/such/folder/s" 2>"$dir/over"
[ $? = 1 ] && grep -q 'folder/s.lock.*remedy="make its folder' "$dir/over"
ok $? "a socket that can't be bound exits with 1, and says what helps"
(ulimit -n 200 && exec timeout 60 "$araxd" --user --socket "$sock" 2>"$dir/over")
[ $? = 1 ] && grep -q 'RLIMIT_NOFILE.* limit=200 least=256 remedy="a higher LimitNOFILE=' "$dir/over"
ok $? "where too few files may be open it exits with 1, and says what helps"

start
[ "$byte" = 1 ]
ok $? "--ready-fd tells when it serves"
[ "$(stat -c %a "$sock")" = 600 ]
ok $? "a private socket is its owner's"
timeout 60 "$araxd" --user --socket "$sock" 2>"$dir/second"
[ $? = 1 ] && grep -q 'another araxd' "$dir/second"
ok $? "a second instance is refused"
[ -S "$sock" ]
ok $? "and leaves the first one's socket"
sleep 1.5
idles
ok $? "no processor time while idle"
kill -USR1 "$pid"
logs statistics
ok $? "SIGUSR1 writes statistics"
stop TERM
[ "$status" = 0 ]
ok $? "SIGTERM ends it with 0"
[ ! -e "$sock" ]
ok $? "the socket is gone"
# Whoever sends a process what its group has from others, too.
ended=0
for _ in 1 2 3 4 5; do
	start
	kill -TERM "$pid"
	stop INT
	[ "$status" = 0 ] && ! grep -q 'tasks were running' "$dir/log" || ended=1
done
ok $ended "and so do two signals, as nothing runs"

plain=$araxd
printf '#!/bin/sh\nexec env --ignore-signal=CHLD "%s" "$@"\n' "$(realpath "$plain")" >"$dir/ignoring"
chmod 700 "$dir/ignoring"
araxd=$dir/ignoring
start
araxd=$plain
[ $((0x$(awk '/^SigIgn/ { print $2 }' "/proc/$pid/status") >> 16 & 1)) = 0 ]
ok $? "how its children end it is told, whoever started it"
stop TERM

start
kill -9 "$pid"
wait "$pid" 2>/dev/null
start
[ "$byte" = 1 ]
ok $? "starts over a killed one's socket"
stop INT
[ "$status" = 0 ]
ok $? "SIGINT ends it with 0"

mkdir -p "$dir/state/arax"
echo '{"version": 2, "models": [{' >"$dir/state/arax/models.json"
start
stop TERM
[ "$status" = 0 ] && grep -q 'learnt run times are not used.*models.json:' "$dir/log"
ok $? "a damaged file of run times is told, and no obstacle"
cat >"$dir/state/arax/models.json" <<-'END'
	{"version": 2, "models": [{"kernel": "gone", "abi": "0123456789abcdef", "device": "gpu9",
	"backend": "none", "units": 3, "sizes": [
	{"work": 5.0, "ns": 5, "deviation": 0.0, "max_ns": 5, "runs": 5, "day": 100000}]}]}
END
start
logs 'learnt run times loaded.*of_others=1'
ok $? "learnt run times are loaded, those of others too"
stop TERM

# What it has learnt is there to be looked at while it runs, when it is asked.
saved() {
	for _ in $(seq 600); do
		[ ! -e "$dir/state/arax/models.json" ] || return 0
		sleep 0.1
	done
	return 1
}
rm "$dir/state/arax/models.json"
echo 'cpu { memory = "64M" }' >"$dir/conf"
chmod 600 "$dir/conf"
start --config "$dir/conf"
kill -USR1 "$pid"
saved && grep -q '"direction": "out"' "$dir/state/arax/models.json"
ok $? "SIGUSR1 writes what it knows, and links are in it"
stop TERM
[ "$status" = 0 ] && [ "$(ls "$dir/state/arax")" = models.json ]
ok $? "and nothing else is left"

echo 'sched { policy = static }' >"$dir/conf"
chmod 600 "$dir/conf"
start --config "$dir/conf"
echo 'sched { policy = stream-aware }' >"$dir/conf"
kill -HUP "$pid"
logs 'policy changed.*stream-aware'
ok $? "SIGHUP changes the scheduling policy"
echo 'sched { policy = best }' >"$dir/conf"
kill -HUP "$pid"
logs 'old configuration stays.*must be one of eft'
ok $? "a wrong configuration changes nothing"
stop TERM
[ "$status" = 0 ]
ok $? "and it goes on"

# It may be misspelt.
start --tenants "$dir/tenats.d"
grep -q "warning: the folder of saved limits was not there and has been made: none are in force folder=$dir/tenats.d remedy=\"put files there" "$dir/log"
ok $? "a folder of limits that was not there is told"
stop TERM
start --tenants "$dir/tenats.d"
! grep -q 'the folder of saved limits' "$dir/log"
ok $? "and one that is there is not"
stop TERM
start --tenants "$dir/none/tenats.d"
grep -q "warning: the folder of saved limits is not there and can't be made: none are in force folder=$dir/none/tenats.d error=.*No such file.*remedy=\"make it, and it is read at once" "$dir/log"
ok $? "nor can one be made where there is nothing above it"
if ! grep -q 'no cgroup2' "$dir/log"; then
	mkdir -p "$dir/none/tenats.d"
	echo 'nonsense' >"$dir/none/tenats.d/10-x.conf"
	logs 'tenats.d/10-x.conf'
	ok $? "which is read as soon as it is there"
fi
stop TERM

for kind in kernel:--user broker:--no-broker; do
	echo "link { kind = ${kind%:*} }" >"$dir/conf"
	timeout -s KILL 60 "$araxd" "${kind#*:}" --config "$dir/conf" --tenants "$dir/tenants.d" --socket "$sock" 2>"$dir/log"
	[ $? = 1 ] && grep -q 'no link is left' "$dir/log"
	ok $? "link.kind = ${kind%:*} and ${kind#*:} leave nobody to serve"
done

# Nobody has stopped it: a service manager is to start it anew.
printf 'link { kind = kernel }\nsched { models = none }\n' >"$dir/conf"
LD_PRELOAD=$(realpath "$fake_module") timeout -s KILL 60 "$araxd" --config "$dir/conf" --tenants "$dir/tenants.d" 2>"$dir/log"
[ $? = 1 ] && grep -q 'kernel link lost' "$dir/log" && grep -q 'araxd has ended' "$dir/log"
ok $? "a module that is lost ends it in order, with 1"
grep -q 'published cpu0 with figures' "$dir/log"
ok $? "it is told of devices, and what they do"
[ "$(grep -c 'told of 0 tenants' "$dir/log")" = 1 ]
ok $? "and once that no tenant has waited so far"
FAKE_OLD=1 LD_PRELOAD=$(realpath "$fake_module") timeout -s KILL 60 "$araxd" --config "$dir/conf" --tenants "$dir/tenants.d" 2>"$dir/log"
grep -qx 'published cpu0' "$dir/log"
ok $? "and an older one of devices alone"
grep -q 'told of 0 tenants' "$dir/log" && grep -q 'kernel link lost call=fetch' "$dir/log"
ok $? "which goes on where it does not know how tenants wait"

# Each link has limits of its own: there are two only for who wants that.
for kind in auto both; do
	printf 'link { kind = %s }\nsched { models = none }\n' $kind >"$dir/conf"
	LD_PRELOAD=$(realpath "$fake_module") timeout -s KILL 60 "$araxd" --config "$dir/conf" --socket "$sock" \
		--tenants "$dir/tenants.d" 2>"$dir/log.$kind"
done
grep -q 'attached to the module' "$dir/log.auto" && grep -q "no socket.*socket=$sock" "$dir/log.auto" && ! grep -q 'listening' "$dir/log.auto"
ok $? "link.kind = auto: no socket where there is the module"
grep -q 'attached to the module' "$dir/log.both" && grep -q "listening socket=$sock" "$dir/log.both" &&
	grep -q 'both links are served.*remedy=' "$dir/log.both"
ok $? "link.kind = both: both, and it is said what that means"

# Workers' cgroups: where the administrator says, or below what systemd has delegated.
echo 'worker { cgroup = "/nowhere/at/all" }' >"$dir/conf"
"$araxd" --user --socket "$sock" --config "$dir/conf" 2>"$dir/log"
[ $? = 1 ] && grep -q "workers can't have cgroups folder=/nowhere/at/all.*remedy=" "$dir/log"
ok $? "no cgroups where they are wanted: refused"
for top in /sys/fs/cgroup /sys/fs/cgroup/unified none; do
	[ -w "$top/cgroup.procs" ] && break
done
if [ "$top" != none ] && mkdir "$top/arax-test.$$" &&
	python3 -c 'import os, sys; os.setxattr(sys.argv[1], "user.delegate", b"1")' "$top/arax-test.$$" 2>/dev/null; then
	cgroup=$top/arax-test.$$
	plain=$araxd
	printf '#!/bin/sh\necho $$ >%s/cgroup.procs && exec "%s" "$@"\n' "$cgroup" "$(realpath "$plain")" >"$dir/inside"
	chmod 700 "$dir/inside"
	araxd=$dir/inside
	start
	grep -q "workers have cgroups folder=$cgroup " "$dir/log" &&
		[ "$(cat "$cgroup/araxd/cgroup.procs")" = "$pid" ] && [ -z "$(cat "$cgroup/cgroup.procs")" ]
	ok $? "what is delegated is used"
	stop TERM
	[ "$status" = 0 ] && rmdir "$cgroup/araxd" "$cgroup"
	ok $? "and is empty in the end"
	araxd=$plain
else
	[ ! -d "$top/arax-test.$$" ] || rmdir "$top/arax-test.$$"
	n=$((n + 1))
	echo "ok $n - what is delegated is used # SKIP no cgroup2 that takes a mark of delegation"
fi

echo "1..$n"
exit $bad
