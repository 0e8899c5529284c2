#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What people type, on either link: which daemon `arax run` finds, and what
# administrators see and do to a program that works.  TAP on standard output.
# usage: commands.sh kernel|broker ARAX TOLD ARAXD...	(the last is araxd's command)

set -u
link=$1 arax=$2 told=$3
shift 3
work=$(mktemp -d /tmp/arax-commands.XXXXXX)
chmod 755 "$work"
daemon=
client=
n=0
failed=0
mount=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
group=arax-commands-$$
# The program is somebody else where that is possible: the module serves all users.
uid=
[ "$link" != kernel ] || uid=1000

# shellcheck disable=SC2317 # it is called by the trap
cleanup() {
	[ -z "$client" ] || kill "$client" 2>/dev/null
	[ -z "$daemon" ] || kill "$daemon" 2>/dev/null
	wait
	[ -z "$mount" ] || rmdir "$mount/$group" 2>/dev/null
	rm -rf "$work"
}
trap cleanup EXIT

ok() { # STATUS WHAT
	n=$((n + 1))
	if [ "$1" = 0 ]; then
		echo "ok $n - $2"
	else
		failed=1
		echo "not ok $n - $2"
		sed 's/^/# /' "$work/out" "$work/log" 2>/dev/null
	fi
}

skip() { # WHAT REASON
	n=$((n + 1))
	echo "ok $n - $1 # SKIP $2"
}

says() { grep -qF -- "$1" "$work/out"; }

arax() { "$arax" "$@" >"$work/out" 2>&1; }

start() {
	rm -f "$work/ready"
	mkfifo "$work/ready"
	# A reader is there before araxd may write and close it.
	exec 6<>"$work/ready"
	exec 5<"$work/ready"
	"$@" --ready-fd 9 9>&6 6>&- 5<&- 2>"$work/log" &
	daemon=$!
	exec 6>&-
	head -c 1 <&5 >/dev/null
	exec 5<&-
}

stop() {
	kill "$daemon"
	wait "$daemon"
	ok $? 'araxd ends well'
	daemon=
}

# ------------------------------------------------------------------
# Without a daemon

if [ "$link" = kernel ]; then
	arax info && grep -q '^daemon attached  *no$' "$work/out"
	ok $? 'the module is there, and says that no daemon is'
	! arax run -- true && says 'no araxd is attached to /dev/arax'
	ok $? 'run takes no other link than the one that was asked for'
	env -u ARAX_LINK "$arax" run -- "$arax" info >"$work/out" 2>&1 &&
		grep -q '^link  *broker$' "$work/out" && grep -q '^daemon attached  *yes$' "$work/out"
	ok $? 'run starts a private daemon where the module has none'
	says 'no araxd is attached to /dev/arax: starting a private one'
	ok $? 'and says why'
	mkdir "$work/arax"
	start "${arax%/*}/araxd" --user --socket "$work/arax/arax.sock"
	XDG_RUNTIME_DIR=$work env -u ARAX_LINK "$arax" run -- "$arax" info >"$work/out" 2>&1 &&
		grep -q '^link  *broker$' "$work/out" && says 'taking the one that serves a socket'
	ok $? 'run takes a daemon that serves a socket alone'
	stop
else
	! arax run -- true && says 'is araxd running?'
	ok $? 'run starts no other daemon than the one that was asked for'
fi

# ------------------------------------------------------------------
# What there is

start "$@"
arax info && grep -q "^link  *$link$" "$work/out" && grep -q '^daemon attached  *yes$' "$work/out"
ok $? 'info tells of the link and the daemon'
arax run -- "$arax" info && grep -q "^link  *$link$" "$work/out" && ! says private
ok $? 'run takes the daemon that is there'
arax info --json && says "\"link\": \"$link\"" && says '"daemon": true'
ok $? 'so does its JSON'
arax devices && grep -q '^ *0  *cpu' "$work/out"
ok $? 'devices lists the processor'
arax devices --json && says '"kind": "cpu"' && says '"online": true'
ok $? 'so does its JSON'

# ------------------------------------------------------------------
# A program at work

place=
if [ -n "$mount" ] && mkdir "$mount/$group" 2>/dev/null; then
	place=/$group
fi
mkfifo "$work/tell" "$work/hear"
(
	[ -z "$place" ] || sh -c 'echo $PPID' >"$mount/$group/cgroup.procs"
	exec "$told" $uid <"$work/tell" >"$work/hear"
) &
client=$!
exec 7>"$work/tell" 8<"$work/hear"

tell() { # LINE ANSWER: what the program is told, and must answer
	[ -z "$1" ] || echo "$1" >&7
	read -r answer <&8
	echo "told $1: $answer" >"$work/out"
	[ "$answer" = "$2" ]
}

# KEY of the program's context; nothing if it has none.
of_context() {
	"$arax" ps --json | awk -v key="\"$1\":" -v pid="$client," '
		$1 == "\"context\":" { values = "" }
		$1 == key && values == "" { values = $2 }
		$1 == "\"pid\":" { mine = $2 == pid }
		$1 == "\"tenant_id\":" && mine { print values; mine = 0 }' | tr -d '",'
}

tell '' ok && tell 'buffer 1048576' ok && tell call ok
ok $? 'a program opens a context, and has a buffer'
context=$(of_context context)
[ -n "$context" ] && arax ps && grep "^ *$context " "$work/out" | grep -q " $client  *told  *live "
ok $? 'ps has its context'
[ "$(of_context buffers)" = 1 ] && [ "$(of_context uid)" = "${uid:-$(id -u)}" ]
ok $? 'and knows its owner and its buffer'
if [ -n "$place" ]; then
	[ "$(of_context tenant)" = "$place" ]
	ok $? 'and its tenant'
else
	skip 'and its tenant' 'no cgroup can be made here'
fi

# ------------------------------------------------------------------
# Limits that are set while it runs

if [ -n "$place" ]; then
	arax tenant set "$place" memory.max=1 && tell 'buffer 4096' EDQUOT
	ok $? 'memory.max holds at once'
	arax tenant show "$place" && grep -q '^memory.max  *1 B$' "$work/out" &&
		grep -q '^memory.events  *1$' "$work/out"
	ok $? 'tenant show has it, and what it has refused'
	arax tenant set --json "$place" memory.max=64M && says '"max": 67108864' && tell 'buffer 4096' ok
	ok $? 'and can be raised, as the JSON tells'
	tell 'tasks 8 0' ok && arax tenant set "$place" tasks.max=3 && tell 'tasks 8 5' ok
	ok $? 'tasks.max holds at once: of 8 in flight 5 are refused'
	tell 'tasks 3 0' ok
	ok $? 'and no more than those'
	arax tenant unset "$place" tasks.max memory.max && tell 'tasks 8 0' ok
	ok $? 'and goes as it came'
	arax tenant show "$place" && says 'pressure ' && says 'some avg10=0.00 avg60=0.00 avg300=0.00 total=0' &&
		grep -q '^device_time.stat  *usage_usec [0-9]* nr_periods 0 nr_throttled 0 throttled_usec 0$' "$work/out"
	ok $? 'who had no device to wait for shows no pressure'
	arax tenant show --json "$place" && says '"avg300": 0.0,' && says '"total_usec": 0' &&
		says '"usage_usec": ' && says '"throttled_usec": 0'
	ok $? 'and so in JSON'
	arax tenant show && grep "^$place " "$work/out" | grep -q ' 0.00% '
	ok $? 'nor in the table of all'
	arax tenant set "$place" tasks.max=3 && tell 'through 64' ok && arax tenant show "$place" &&
		grep -q '^tasks.events  *5$' "$work/out" && arax tenant unset "$place" tasks.max
	ok $? 'a queue that waits for room has 64 tasks through where there is room for 3'
	! arax tenant set "$place-none" tasks.max=1 && says "$place-none"
	ok $? 'a cgroup that is not there has no limits'
else
	skip 'limits hold at once' 'no cgroup can be made here'
fi

# ------------------------------------------------------------------
# And its end

# soon COMMAND: its tasks that araxd has are done first, and nothing tells when; up to a minute
soon() {
	tries=600
	until "$@"; do
		[ $tries -gt 0 ] || return 1
		tries=$((tries - 1))
		sleep 0.1
	done
}
# shellcheck disable=SC2317 # it is called by soon
gone() { [ -z "$(of_context context)" ]; }
# shellcheck disable=SC2317 # likewise
uncharged() {
	arax tenant show "$place" && grep -q '^memory.current  *0 B$' "$work/out" &&
		grep -q '^tasks.current  *0$' "$work/out" &&
		grep -q '^contexts.current  *0$' "$work/out"
}

tell wait ok && arax kill --json "$context" && cp "$work/out" "$work/killed" && tell '' EPIPE
ok $? 'who is killed while it waits for a task is told so'
tell call EPIPE && tell 'buffer 4096' EPIPE
ok $? 'and so are its calls from then on'
exec 7>&-
wait "$client"
ok $? 'the program ends as it likes'
soon gone
ok $? 'ps has its context no more'
client=
! arax kill "$context" && says "killing context $context"
ok $? 'nor has kill'
grep -q "\"context\": $context," "$work/killed" && grep -q '"result": 0' "$work/killed" &&
	! "$arax" kill --json "$context" 2>"$work/log" >"$work/out" && says '"result": -2'
ok $? 'whose JSON tells both'
if [ -n "$place" ]; then
	soon uncharged
	ok $? 'and nothing is charged to its tenant'
fi
stop

echo "1..$n"
exit $failed
