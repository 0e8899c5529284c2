#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The arax command: usage, exit statuses, JSON; and what needs a daemon against a
# private one.  TAP on standard output.

set -uo pipefail

cd "$(dirname "$0")/../.." || exit 1
unset ARAX_LINK
arax=build/bin/arax
n=0
failed=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export XDG_RUNTIME_DIR=$tmp XDG_STATE_HOME=$tmp

is() { # STATUS WHAT COMMAND...: exit status, and no silence on failure
	local want=$1 what=$2 status
	shift 2
	"$@" >"$tmp/out" 2>"$tmp/err"
	status=$?
	n=$((n + 1))
	if [ "$status" = "$want" ] && { [ "$want" != 1 ] && [ "$want" != 2 ] || [ -s "$tmp/err" ]; }; then
		echo "ok $n - $what"
	else
		failed=1
		echo "not ok $n - $what: exit status $status, expected $want"
		sed 's/^/# /' "$tmp/out" "$tmp/err"
	fi
}

says() { # TEXT WHAT: the last command printed it
	n=$((n + 1))
	if grep -qF -- "$1" "$tmp/out" "$tmp/err"; then
		echo "ok $n - $2"
	else
		failed=1
		echo "not ok $n - $2: no \"$1\" in"
		sed 's/^/# /' "$tmp/out" "$tmp/err"
	fi
}

says_not() { # TEXT WHAT: the last command did not
	n=$((n + 1))
	if grep -qF -- "$1" "$tmp/out" "$tmp/err"; then
		failed=1
		echo "not ok $n - $2"
	else
		echo "ok $n - $2"
	fi
}

is 2 'no command' $arax
is 2 'an unknown command' $arax nonsense
is 0 'help' $arax --help
is 0 'version' $arax --version
for c in devices info kernels models run ps kill tenant trace; do
	is 0 "$c --help" $arax $c --help
	says "usage: arax $c" "$c --help shows its usage"
	is 2 "$c with a wrong option" $arax $c --nonsense
	says 'unknown option --nonsense' 'and says so'
	is 0 "$c --version" $arax $c --version
	says 'arax 0.' 'and says it'
done
is 0 'bench --help' $arax bench --help
is 2 'bench with a wrong option' $arax bench --nonsense
is 0 'bench --version' $arax bench --version
is 2 'bench wants one' $arax bench
says 'which bench?' 'and says so'
is 2 'bench wants one alone' $arax bench list null
says "unexpected 'null'" 'and says what is more'
is 1 'bench with an araxd that is not there' env ARAX_BENCH_ARAXD=/nonexistent/araxd \
	$arax bench null --seconds 0.1 --rounds 1
says '/nonexistent/araxd: No such file' 'and says which'
is 0 'sim --help' $arax sim --help
is 2 'sim with a wrong option' $arax sim --nonsense
is 0 'sim --version' $arax sim --version
is 2 'sim wants a scenario' $arax sim
n=$((n + 1))
if grep -q '^arax-sim: which scenario?$' "$tmp/err"; then
	echo "ok $n - and asks for it"
else
	failed=1
	echo "not ok $n - and asks for it: $(head -1 "$tmp/err")"
fi
is 1 'sim wants one that is there' $arax sim /nonexistent.json
is 2 'sim takes no seed below 0' $arax sim x.json --seed -1
is 1 'sim wants a scenario in JSON' $arax sim selftests/unit/libarax_cli.sh
says 'libarax_cli.sh:1: column' 'and says where it is none'
is 2 'sim wants a policy that there is' $arax sim examples/scenarios/two-tenants.json --policy best
says 'no such policy: best; there are eft, fair' 'and which there are'
is 2 'sim wants a policy with a name' $arax sim examples/scenarios/two-tenants.json --policy ''
says 'no such policy: ; there are eft, fair' 'and says so'
is 0 'sim takes --ahead' $arax sim examples/scenarios/cholesky.json --no-bound --ahead
is 0 'sim takes --on-lane' $arax sim examples/scenarios/cholesky.json --no-bound --on-lane
says 'inputs of 0 tasks before their lanes, results of 0 behind them' 'and has nothing beside lanes'
is 0 'sim simulates' $arax sim examples/scenarios/two-tenants.json --json --plot "$tmp/plot.svg"
says '"completed": 6400' 'and every task comes to its end'
is 0 'sim draws' grep -q '<rect' "$tmp/plot.svg"
is 1 'sim wants a file that can be' $arax sim /nonexistent.json --plot "$tmp/none/plot.svg"
says "--plot $tmp/none/plot.svg: No such file or directory: give a file" 'and says so before all else'
printf '%9999s' '' >"$tmp/plot.svg"
is 1 'sim has not drawn' $arax sim /nonexistent.json --plot "$tmp/plot.svg"
is 0 'over what there was' test "$(stat -c %s "$tmp/plot.svg")" = 9999
is 1 'sim has not drawn anew' $arax sim /nonexistent.json --plot "$tmp/new.svg"
is 1 'and leaves no file' sh -c "cat $tmp/new.svg"
mkfifo "$tmp/never.json"
is 124 'sim is interrupted' timeout -s INT 0.5 $arax sim "$tmp/never.json" --plot "$tmp/new.svg"
is 1 'and leaves no file either' sh -c "cat $tmp/new.svg"
is 1 'nor one that could not be drawn' bash -c "trap '' XFSZ; ulimit -f 2
	$arax sim examples/scenarios/two-tenants.json --no-bound --plot $tmp/new.svg"
is 1 'not even a part of it' sh -c "cat $tmp/new.svg"
is 0 'sim draws another' $arax sim examples/scenarios/two-tenants.json --no-bound --plot "$tmp/new.svg"
is 0 'all of that, too' test "$(tail -c 7 "$tmp/new.svg")" = '</svg>'
is 0 'sim draws over another' $arax sim examples/scenarios/two-tenants.json --no-bound --plot "$tmp/plot.svg"
is 0 'all of it' test "$(tail -c 7 "$tmp/plot.svg")" = '</svg>'
is 1 'sim says what is not written' $arax sim examples/scenarios/two-tenants.json --no-bound --plot /dev/full
says '--plot /dev/full: No space left on device' 'and why'
for c in devices info kernels ps; do
	is 2 "$c takes no operand" $arax $c x
	says 'unexpected "x"' 'and says so'
done
is 2 'show takes one path' $arax tenant show / /
is 2 'kill --json wants a context, too' $arax kill --json
is 2 'kill takes no sign' $arax kill ' -18446744073709551611'
is 2 'kill takes 32 bits' $arax kill 4294967296
for c in 'arax --help' 'arax --version' 'arax kill --help' 'arax sim --help' \
	'arax sim examples/scenarios/two-tenants.json' 'arax-bench --help' 'arax-bench list' \
	'arax-bench list --json' 'arax-rodinia --version' 'araxd --version' 'araxd --help'; do
	[ -x "build/bin/${c%% *}" ] || continue
	# shellcheck disable=SC2086,SC2016 # words; for that shell
	is 1 "$c that nobody gets" sh -c '"$@" >/dev/full' - build/bin/$c
	says 'standard output' 'and says so'
done
# However its options are written, what it starts there is told of none to start another.
if [ -x build/bin/arax-rodinia ]; then
	mkdir "$tmp/bin"
	cp build/bin/arax-rodinia "$tmp/bin"
	printf '#!/bin/sh\nshift 7\necho "there: $*"\n' >"$tmp/bin/arax"
	chmod +x "$tmp/bin/arax"
	for c in '--kind cpu' '--kin=cpu' '--ki cpu' '--k=cpu --kind opencl'; do
		# shellcheck disable=SC2086 # words
		is 0 "rodinia $c" "$tmp/bin/arax-rodinia" bfs $c --siz 99 --che
		says "there: bfs --size 99 --seed 1 --check" 'and with what'
	done
	is 0 'rodinia with everything' "$tmp/bin/arax-rodinia" --js --kind=cpu --se=0 --step 2 --size=7 hotspot
	says "there: hotspot --size 7 --steps 2 --seed 0 --json" 'and with what'
fi
is 2 'kill wants a context' $arax kill
is 2 'kill wants a number' $arax kill 1x
is 2 'kill wants a possible number' $arax kill 0
is 2 'tenant wants a verb' $arax tenant
says '[--tenants DIR]' 'and its usage has all options'
is 1 'trace wants a file that is there' $arax trace /nonexistent
says 'arax: /nonexistent: ' 'and says who says so'
is 2 'tenant wants a known verb' $arax tenant get
is 2 'tenant set wants something to set' $arax tenant set
is 2 'tenant set takes no empty path' $arax tenant set '' tasks.max=1
says 'the PATH is empty' 'and says so'
is 2 'nor does tenant unset' $arax tenant unset --save '' tasks.max
is 2 'nor does tenant show' $arax tenant show ''
is 2 'tenant set wants good values' $arax tenant set / memory.max=-1
is 2 'tenant set wants known keys' $arax tenant set memroy.max=1
says 'there are memory.max, tasks.max' 'and lists them'
is 2 'tenant unset wants no values' $arax tenant unset memory.max=1
is 2 'tenant unset of a key with a slip in it' $arax tenant unset memroy.max
says 'of tenant "memroy.max"?  There are memory.max, tasks.max' 'says what it was taken for'
is 2 'tenant show saves nothing' $arax tenant show --save
is 2 'tenant set --json wants something to set, too' $arax tenant set / --json
is 2 'tenant --tenants wants a folder' $arax tenant show --tenants
is 2 'run wants a program' $arax run --
is 2 'run prints no JSON' $arax run --json true
says 'unknown option --json' 'and says so'
mkdir "$tmp/alone"
cp $arax "$tmp/alone"
is 1 'run with no araxd' env LD_LIBRARY_PATH=build/lib PATH="$tmp/alone" "$tmp/alone/arax" run true
says "araxd, beside arax or in PATH, can't be run: No such file" 'says where it looked'
# There is one, of which this user is not to have anything: that is said, and no other is started.
cat >"$tmp/other.py" <<'END'
import os, socket, subprocess, sys
path, uid, *command = sys.argv[1:]
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(path)
os.chmod(path, 0o777)
if uid != "gone":
	os.seteuid(int(uid))
	s.listen()
	os.seteuid(0)
sys.exit(subprocess.call(command))
END
if command -v python3 >/dev/null && [ "$(id -u)" = 0 ] && [ ! -e /run/arax/arax.sock ] && [ ! -e /dev/arax ]; then
	mkdir "$tmp/other" "$tmp/gone" "$tmp/other/arax" "$tmp/gone/arax"
	XDG_RUNTIME_DIR=$tmp/other is 1 'run beside an araxd that is not trusted' \
		python3 "$tmp/other.py" "$tmp/other/arax/arax.sock" 65534 $arax run echo it-ran
	says 'belongs to uid 65534, expected 0: not trusted' 'and says why it takes none'
	says '--private' 'and what starts one'
	says_not 'it-ran' 'and runs nothing'
	XDG_RUNTIME_DIR=$tmp/gone is 0 'run beside what an araxd has left' \
		python3 "$tmp/other.py" "$tmp/gone/arax/arax.sock" gone $arax run true
	# As behind su: the folder is another user's, and nobody can have an araxd there.
	chmod 711 "$tmp"
	mkdir -m 700 "$tmp/mine"
	XDG_RUNTIME_DIR=$tmp/mine is 1 'info without an araxd of its own' \
		python3 -c 'import os, sys; os.setuid(65534); os.execv(sys.argv[1], sys.argv[1:])' $arax info
	says 'is not this user' 'and says so'
	mkdir -m 700 "$tmp/theirs"
	chown 65534 "$tmp/theirs"
	XDG_RUNTIME_DIR=$tmp/theirs is 1 'nor has root, who may look into it' $arax info
	says 'is not this user' 'and says so'
else
	n=$((n + 1))
	echo "ok $n - run beside an araxd that is not trusted # SKIP not root, no Python, or an araxd of the system's"
fi
is 2 'run --config wants a file' $arax run --config
says 'which file' 'and says so'
is 2 'run --kernels wants a folder' $arax run --kernels
is 2 'run --trace wants a file' $arax run --trace
is 2 'trace wants a file' $arax trace
is 2 'trace wants one file' $arax trace a b
is 2 'trace prints one form' $arax trace --dot --json a
is 1 'a trace that is not there' $arax trace "$tmp/none"
echo 'no JSON' >"$tmp/t.jsonl"
is 1 'a trace that is none' $arax trace "$tmp/t.jsonl"
says "t.jsonl:1: not a task as araxd --trace writes them: " 'and says where, and what is wanted'
echo '{"seq": 1}' >"$tmp/t.jsonl"
is 1 'a trace of something else' $arax trace "$tmp/t.jsonl"
says 'not a task' 'and says so'
silent() { # WHAT: the last command printed nothing that a terminal obeys
	n=$((n + 1))
	if LC_ALL=C grep -qE $'[\001-\010\013-\037\177]|\302[\200-\237]' "$tmp/out" "$tmp/err"; then
		failed=1
		echo "not ok $n - $1: a control character in"
		cat -v "$tmp/out" "$tmp/err" | sed 's/^/# /'
	else
		echo "ok $n - $1"
	fi
}
# U+009B, a CSI, as it is in UTF-8.
printf '{"a" "\302\23331m"\n' >"$tmp/t.jsonl"
is 1 'a trace that speaks to a terminal' $arax trace "$tmp/t.jsonl"
silent 'is not quoted so'
is 1 'run times that do' $arax models --file "$tmp/t.jsonl"
silent 'are not quoted so'
# Whatever a driver calls its device, and who else may write such a file.
task() { # SEQ KERNEL DEVICE
	# shellcheck disable=SC2028 # as it is
	echo "{\"seq\":$1,\"link\":\"l\\\\\",\"context\":1,\"kernel\":\"$2\",\"work\":1,\"submit_us\":1,\"start_us\":2,\"enter_us\":0,\"run_us\":3,\"leave_us\":0,\"device\":\"$3\",\"lane\":0,\"result\":0,\"ranges\":[],\"then\":[2]}"
}
long=$(printf '\303\244%.0s' {1..100})
{
	task 1 'x\"]; evil [label=\"' 'G\"P\\U\u001b[31m'
	task 2 "$long" 'none'
	task 3 "x$long" "none"
	task 4 $'\302\23331m\177\303\244' 'none'
} >"$tmp/t.jsonl"
is 0 'names in a graph' $arax trace --dot "$tmp/t.jsonl"
says 'label="x\"]; evil [label=\"\n' 'stay in their strings'
says 'G\"P\\U?[31m lane' 'and say nothing to a terminal'
silent 'nor by what is no ASCII'
says 'label="?31m?ä\n' 'but keep the rest'
says '"l\\1" -> "l\\2"' 'also that of the link'
is 0 'a table of them' $arax trace "$tmp/t.jsonl"
says " $long " 'has a row for one'
says " x$long " 'and one for the other'
silent 'and none is for the terminal'
is 0 'tasks of them' $arax trace --tasks "$tmp/t.jsonl"
says '"kernel":"\u009b31m\u007fä"' 'escaped'
silent 'as are all'
is 0 'events of them' $arax trace --perfetto "$tmp/t.jsonl"
says '"name":"\u009b31m\u007fä: success"' 'escaped, too'
silent 'all of them'
! command -v dot >/dev/null || is 0 'dot reads it' dot -o /dev/null "$tmp/out"
if command -v python3 >/dev/null; then
	is 0 'names of any length for perfetto' bash -o pipefail -c \
		"$arax trace --perfetto $tmp/t.jsonl | python3 -m json.tool"
fi
# From right to left and back, as no name needs it: U+061C, 200E, 2028, 202E, 2066 and 2069.
turned=$'\330\234\342\200\216\342\200\250\342\200\256\342\201\246\342\201\251'
# Next to those, and none of them: U+061D, 200D, 2010, 202F, 2065 and 206A.
kept=$'\330\235\342\200\215\342\200\220\342\200\257\342\201\245\342\201\252'
task 1 "a${turned}b$kept" 'none' >"$tmp/turned.jsonl"
is 0 'names that turn the text behind them' $arax trace --tasks "$tmp/turned.jsonl"
says '"kernel":"a\u061c\u200e\u2028\u202e\u2066\u2069b'"$kept\"" 'are escaped'
is 0 'a graph of them' $arax trace --dot "$tmp/turned.jsonl"
says "label=\"a??????b$kept" 'does not turn either'
is 0 'nor a table of them' $arax trace "$tmp/turned.jsonl"
says_not $'\342\200\256' 'where a terminal sees none'
task 1 held d | sed 's/"lane"/"unblock_us":1.5,"lane"/' >"$tmp/t.jsonl"
is 0 'a task that was held' $arax trace --perfetto "$tmp/t.jsonl"
says '"name":"held: timeline reached","cat":"timeline","ts":1.5,"pid":1,"tid":1' 'until then'
: >"$tmp/t.jsonl"
is 0 'an empty trace' $arax trace --perfetto "$tmp/t.jsonl"
says 'no task is in it' 'and says so'
# shellcheck disable=SC2046 # words
is 2 'run takes so many folders of kernels' $arax run $(printf -- '--kernels /tmp %.0s' {1..17}) true
says 'more than 16' 'and says how many'
ARAX_LINK=nonsense is 1 'a wrong ARAX_LINK' $arax info
says 'want kernel, broker or broker:PATH' 'and the remedy'
ARAX_LINK=broker:$tmp/none is 1 'no daemon' $arax info
says 'is araxd running?' 'and the remedy'
says 'arax run PROGRAM' 'of which one needs no rights'
for c in devices kernels ps 'kill 1' 'tenant show' 'tenant show /' 'tenant set / tasks.max=1'; do
	[ "$c" = "${c#tenant * /}" ] || grep -q cgroup2 /proc/self/mounts || continue
	# shellcheck disable=SC2086 # words
	ARAX_LINK=broker:$tmp/none is 1 "$c without a daemon" $arax $c
	says 'is araxd running?' 'and the remedy'
done
ARAX_LINK=broker:$(printf '%0200d' 0) is 1 'a socket path too long' $arax info
says "a socket's path has 107 bytes at most, and this one 200: give a shorter one (ARAX_LINK=broker:PATH" 'and says what helps'
if [ ! -e /dev/arax ] && [ ! -e /run/arax/arax.sock ]; then
	ARAX_LINK='' XDG_RUNTIME_DIR=/$(printf '%0300d' 0) is 1 'a folder for one that is too long' $arax info
	says "at most, and this one 316: give a shorter one (ARAX_LINK=broker:PATH, XDG_RUNTIME_DIR): /000" 'and says it likewise'
fi
ARAX_LINK=broker:$tmp/none is 1 'run starts no daemon other than the one asked for' $arax run true

models=selftests/fuzz/corpus/models/every
is 0 'models' $arax models --file $models
says 'vadd' 'shows a kernel'
says '900 ns' 'and its time'
says '11.0 us' 'and that with outliers'
is 0 'models --json' $arax models --json --file $models
says '"runs": 70' 'is what the file says'
is 0 'models --plot' $arax models --file $models --plot "$tmp/plot.svg"
is 0 'the plot has its points' grep -q '<circle' "$tmp/plot.svg"
is 0 'and no links where the file has none' bash -c "! grep -q stroke-dasharray $tmp/plot.svg"
is 0 'models --links of a file of before' $arax models --links --json --file $models
says '[]' 'finds none'
links=selftests/fuzz/corpus/models/links
is 0 'models of links' $arax models --file $links
says 'vadd' 'shows kernels'
says 'cuda0  host' 'and the way to a device'
says 'host   cuda0' 'and from it'
says 'cuda0  cuda1' 'and from another one'
says '9.5 us' 'the latency'
says '25 GB/s' 'and the rate'
is 0 'models --links' $arax models --links --file $links
is 0 'has nothing else' bash -c "! $arax models --links --file $links | grep -q vadd"
is 0 'models --links --json' $arax models --json --links --file $links
says '"from_units": 114' 'is what the file says'
is 0 'a plot of links' $arax models --links --file $links --plot "$tmp/plot.svg"
is 0 'has a line for each' test "$(grep -c stroke-dasharray "$tmp/plot.svg")" = 3
is 0 'and its name' grep -q 'cuda1 to cuda0' "$tmp/plot.svg"
is 0 'and no kernels' bash -c "! grep -q '<circle' $tmp/plot.svg"
cat >"$tmp/slow.json" <<'END'
{"version": 2, "models": [], "links": [{"device": "d", "direction": "in", "backend": "b",
 "latency_ns": 1e308, "ns_per_byte": 1e308}]}
END
# One that has no end has no room.
is 0 'a plot of a link that takes for ever' bash -c "ulimit -f 1000
	$arax models --file $tmp/slow.json --plot $tmp/plot.svg"
cat >"$tmp/names.json" <<'END'
{"version": 2, "links": [], "models": [{"kernel": "<\u009b2J\u0085\u007f\ufffe\uffff>ä", "device": "d\u001b[m",
 "backend": "b", "sizes": []}]}
END
is 0 'a plot of names that are no text' $arax models --file "$tmp/names.json" --plot "$tmp/plot.svg"
is 0 'has what is left of them' grep -qF '>&#60;2J&#62;ä on d[m<' "$tmp/plot.svg"
! command -v python3 >/dev/null ||
	is 0 'and is XML' python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$tmp/plot.svg"
is 1 'models without a file' $arax models --file "$tmp/none.json"
says 'araxd writes it' 'and why'
echo '{"version": 9, "models": []}' >"$tmp/wrong.json"
is 1 'models of another version' $arax models --file "$tmp/wrong.json"
says 'of version 2' 'and says so'
is 1 'a plot that has no place' $arax models --file $models --plot "$tmp/no/where.svg"
is 2 '--plot wants a file' $arax models --plot

# A user may name a cgroup as he likes, and root completes it.
mkdir -p "$tmp/groups/plain" "$tmp/groups/with space" "$tmp/groups/"$'in\e[31mcolor' \
	"$tmp/groups/x\$(touch\${IFS}expanded)"
cat >"$tmp/complete" <<'END'
. "$1/libarax/cli/arax.bash"
fake=$2/groups
awk() { echo "$fake"; }
cd "$2" || exit
COMP_WORDS=(arax tenant show /)
COMP_CWORD=3
_arax
printf '%s\n' "${COMPREPLY[@]}"
[ ! -e expanded ]
END
cat >"$tmp/values" <<'END'
. "$1/libarax/cli/arax.bash"
cd "$2" || exit
COMP_WORDS=(arax run --kind cu)
COMP_CWORD=3
_arax
[ "${COMPREPLY[*]}" = cuda ] || exit
COMP_WORDS=(arax run --kind cuda --kernels gro)
COMP_CWORD=5
_arax
[ "${COMPREPLY[*]}" = groups ] || exit
COMP_WORDS=(arax run --kind cuda tru)
COMP_CWORD=4
_arax
[[ " ${COMPREPLY[*]} " == *' true '* ]] || exit
COMP_WORDS=(arax bench '')
COMP_CWORD=2
_arax
for b in $("$1/build/bin/arax-bench" list | cut -d' ' -f1); do
	[[ " ${COMPREPLY[*]} " == *" $b "* ]] || exit
done
END
is 0 'completion of options' bash "$tmp/values" "$PWD" "$tmp"
is 0 'completion of cgroups runs no name' bash "$tmp/complete" "$PWD" "$tmp"
says '/plain' 'has a plain one'
says '/with\ space' 'and one with a blank, quoted'
says '/x\$\(touch' 'and one that would be a command, quoted'
# shellcheck disable=SC2016 # for the shell inside
is 0 'but none that a terminal would take for more' sh -c '! grep color "$1"' - "$tmp/out"

if [ ! -x build/bin/araxd ]; then
	echo "ok $((n + 1)) - with a daemon # SKIP there is no build/bin/araxd"
	echo "1..$((n + 1))"
	exit $failed
fi

is 0 'run starts a private daemon' $arax run --private -- true
for closed in '>&-' '2>&-' '>&- 2>&-' '<&- >&-' '<&- 2>&-' '<&- >&- 2>&-'; do
	is 0 "run with $closed" sh -c "$arax run --private -- true $closed"
	is 0 "run --verbose with $closed" sh -c "$arax run --private --verbose -- true $closed"
done
cat >"$tmp/tostop.py" <<'END'
import os, pty, sys, termios
pid, fd = pty.fork()
if not pid:
	a = termios.tcgetattr(0)
	a[3] |= termios.TOSTOP
	termios.tcsetattr(0, termios.TCSANOW, a)
	os.execv(sys.argv[1], sys.argv[1:])
try:
	while os.read(fd, 4096):
		pass
except OSError:
	pass
sys.exit(os.waitpid(pid, 0)[1] != 0)
END
! command -v python3 >/dev/null || is 0 'run --verbose where only the program may write' \
	python3 "$tmp/tostop.py" $arax run --private --verbose -- true
is 7 'run passes the exit status on' $arax run --private -- sh -c 'exit 7'
ARAX_LINK=broker:$tmp/none is 0 'run --kernels starts one whatever there is' \
	$arax run --kernels build/examples/kernels --kernels build/lib/arax/kernels -- $arax kernels
says 'mc_pi' 'which has one folder'
says 'vadd' 'and the other'
is 0 'a program in C++' $arax run --private -- build/unit/libarax-cxx
is 0 'a program with names of its own in one file' $arax run --private -- build/unit/libarax-static
if echo 'int main(void) { return 0; }' | gcc -m32 -pthread -o "$tmp/m32" -x c - 2>/dev/null; then
	is 0 'libarax for 32 bits' gcc -m32 -std=gnu11 -O2 -pthread -Wall -Wextra -Werror \
		-Wno-unused-parameter -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64 \
		-DARAX_VERSION='"32"' -I. -Iuapi -Ilibarax/include -o "$tmp/m32" \
		examples/quickstart.c libarax/*.c
	is 0 'a program with 32 bits' $arax run --private -- "$tmp/m32"
	says 'sum[999999] = 2999997' 'computes the same'
else
	n=$((n + 1))
	echo "ok $n - a program with 32 bits # SKIP the compiler makes none"
fi
is 137 'run tells of a signal' $arax run --private -- sh -c 'kill -9 $$'
# As service managers may leave it.
is 7 'run where children end unheard' env --ignore-signal=CHLD $arax run --private -- sh -c 'exit 7'
is 0 'and so may those of the program' env --ignore-signal=CHLD $arax run --private -- \
	grep -q '^SigIgn:.*[13579bdf]....$' /proc/self/status
is 127 'run of what is not there' $arax run --private -- "$tmp/none"
is 127 'run of what is called "-"' $arax run --private -
says 'arax: -: ' 'which is no option'
is 126 'run of what is no program' $arax run --private -- "$tmp"
is 127 'run that can say nothing of what is not there' sh -c "$arax run --private -- $tmp/none 2>&-"
is 127 'nor where there is an araxd' $arax run --private -- sh -c "$arax run $tmp/none 2>&-"
for limit in 4 5 6; do
	is 1 "run with $limit descriptors" bash -c "ulimit -n $limit; exec $arax run --private -- true"
	is 0 'leaves nothing behind' sh -c "[ -z \"\$(find $tmp -name 'arax-run-*')\" ]"
done
# Whoever sends it knows of this process alone; a key's would have gone to the program as well.
cat >"$tmp/sent" <<'END'
env --default-signal "$1" run --private -- bash -c '
	trap "exit 9" "$1"; touch "$2"; for i in {1..600}; do sleep 0.1; done' - "$2" "$3" &
for i in {1..600}; do
	[ ! -e "$3" ] || break
	sleep 0.1
done
kill "-$2" $!
wait $!
END
for s in INT QUIT TERM USR1 ALRM; do
	is 9 "run passes on SIG$s that was sent to it" bash "$tmp/sent" $arax $s "$tmp/sent.$s"
done
mkdir "$tmp/refused"
echo '{ "library": 1 }' >"$tmp/refused/a.json"
is 0 'run with a wrong kernel library' $arax run --kernels "$tmp/refused" -- true
says 'warning: kernel library refused' 'passes the warning on'
configured() { # WHAT REASON CONFIGURATION: no araxd starts with it
	echo "$3" >"$tmp/wrong.conf"
	is 1 "$1" $arax run --config "$tmp/wrong.conf" -- true
	says "$2" 'and why'
}
configured 'run with an unknown key' "no such option 'enabel'; there are enable, groups, memory" \
	'cpu { enabel = false }'
configured 'run without a device' 'there is no device to run tasks on' 'cpu { enable = false }'
says 'the lines above say why' 'and where to look, as there is nobody to ask'
configured 'run with too many lanes' 'want a number from 1 to 16' \
	'backend "opencl" { options = { "lanes=99" } }'
configured 'run with no memory' 'want a number of bytes, 1 or more, or one of K, M, G or T' \
	'backend "opencl" { options = { "memory=0" } }'
configured 'run with a word that is none' 'want auto or no' \
	'backend "opencl" { options = { "zero-copy=yes" } }'
configured 'run with a path that is none' 'want a path that begins with /' \
	'backend "opencl" { options = { "cache=here" } }'
configured 'run with a size where a number is wanted' \
	'want a whole number from 1048576 to 281474976710656, without a suffix' \
	'backend "sim" { options = { "memory=64M" } }'
configured 'run with a cost without its parts' 'want NAME:BASE_US:NS_PER_ITEM' \
	'backend "sim" { options = { "cost=sgemm:20" } }'
configured 'run with a loss that has no time' 'want INDEX:MS' \
	'backend "sim" { options = { "lose=0" } }'
configured 'run with a loss of a device that there is not' \
	'lose=7:... is of no device: they are numbered from 0 to 3' \
	'backend "sim" { options = { "lose=7:1", "devices=4" } }'
echo 'backend "sim" { options = { "cost=spim:20:1", "cost=spin:20:1" } }' >"$tmp/cost.conf"
is 0 'run with a cost of a kernel that is not there' $arax run --config "$tmp/cost.conf" -- true
says 'warning: a cost is of no kernel that is installed backend=sim kernel=spim remedy=' 'is warned of it'
says_not 'kernel=spin' 'and of no other'
echo 'filter "delay" { devices = "gpu*"' >"$tmp/unused.conf"
echo 'options = { "run-ms=0" } } filter "delay.all" { options = { "run-ms=0" } }' >>"$tmp/unused.conf"
is 0 'run with a filter for devices that are not there' $arax run --config "$tmp/unused.conf" -- true
says 'warning: filter is on no device filter=delay devices=gpu*' 'is warned of it'
says_not 'filter=delay.all' 'and of no other'
# A backend that was left out takes any option.
echo 'backend "cuda" { }' >"$tmp/cuda.conf"
is 0 'what cuda has is told' $arax run --config "$tmp/cuda.conf" -- $arax devices
if grep -q 'built without the CUDA Toolkit' "$tmp/out"; then
	n=$((n + 1))
	echo "ok $n - run with a helper that is no path # SKIP built without CUDA's headers"
else
	configured 'run with a helper that is no path' 'want a path that begins with /' \
		'backend "cuda" { options = { "helper=here" } }'
fi
configured 'run with a filter that would fail all' 'give every, probability or kernel' \
	'filter "error" { }'
unfit() { # WHAT REASON ADDRESSING KIND SYMBOL [CONFIGURATION]: of a vadd like that
	local what=$1 reason=$2
	echo "${6-}" >"$tmp/unfit/araxd.conf"
	cat >"$tmp/unfit/unfit.json" <<-END
		{ "library": "unfit", "version": "1", "kernels": [ { "addressing": "$3",
		"signature": "vadd(in f32 a[], in f32 b[], out f32 c[], u32 n)",
		"implementations": [ { "kind": "$4", "file": "unfit.so", "symbol": "$5" } ] } ] }
	END
	is 1 "$what" $arax run --config "$tmp/unfit/araxd.conf" --kernels "$tmp/unfit" -- \
		build/examples/quickstart
	says "$reason" 'and its owner is told why'
}
mkdir "$tmp/unfit"
cp build/examples/kernels/montecarlo.so "$tmp/unfit/unfit.so"
unfit 'a kernel that is not in its file' 'unfit.so has no function add_up' launch cpu add_up
says ': no device can run kernel vadd: ' 'and of which one'
says ' (as it is in unfit 1, on cpu0' 'and of which library, and where'
unfit 'one that needs a process, and a device with memory' 'its "addressing" is "data"' \
	data cpu mc_pi 'cpu { memory = "64M" }'
unfit 'one for other devices' 'it is there for opencl, the devices are of kind cpu' \
	launch opencl mc_pi
echo 'int no_more;' >"$tmp/unfit/unfit.so"
unfit 'one in a file that is none' 'unfit.so: file too short' launch cpu mc_pi
# That is not "no daemon".
echo 'link { max_clients = 1 }' >"$tmp/one.conf"
is 0 'more connections than there may be' $arax run --private --config "$tmp/one.conf" -- \
	build/unit/libarax-second
says 'as many connections as one user, or all together, may have' 'and its owner is told so'
cat >"$tmp/crash" <<'END'
#!/bin/sh
for stat in /proc/[0-9]*/stat; do
	if read -r pid name _ parent _ 2>/dev/null <"$stat" && [ "$name $parent" = "(araxd) $PPID" ]; then
		kill -SEGV "$pid"
	fi
done
exit 3
END
chmod +x "$tmp/crash"
is 3 'run with an araxd that dies' bash -c 'ulimit -c 0; exec "$@"' - \
	$arax run --private -- "$tmp/crash"
says 'the private araxd died of signal 11' 'says of what'
says 'araxd is ready' 'and what it said last'
says '"addressing": "data"' 'and what contains it'
# Both are waiting for it at once, and the lower one is taken first.
cat >"$tmp/complains" <<'END'
#!/bin/sh
echo 'nonsense' >"$1"
for stat in /proc/[0-9]*/stat; do
	if read -r pid name _ parent _ 2>/dev/null <"$stat" && [ "$name $parent" = "(araxd) $PPID" ]; then
		kill -HUP "$pid"
		kill -TERM "$pid"
		until read -r _ _ state _ <"$stat" && [ "$state" = Z ]; do
			sleep 0.05
		done
	fi
done
exit 3
END
chmod +x "$tmp/complains"
cp "$tmp/one.conf" "$tmp/other.conf"
is 3 'run with an araxd that complains and ends' $arax run --private --config "$tmp/other.conf" -- \
	"$tmp/complains" "$tmp/other.conf"
says 'ended with exit status 0' 'says so'
is 0 'and its complaint once' test "$(grep -c 'the old configuration stays' "$tmp/err")" = 1
is 1 'run with a wrong configuration' $arax run --private --config "$tmp/none" -- true
# While one starts that takes its time.
mkdir "$tmp/slow"
cp $arax "$tmp/slow/arax"
printf '#!/bin/sh\nexec sleep 60\n' >"$tmp/slow/araxd"
chmod +x "$tmp/slow/araxd"
cat >"$tmp/interrupt" <<'END'
env --default-signal "$2/slow/arax" run --private -- sleep 100 &
for i in $(seq 1200); do
	[ -z "$(find "$2" -name 'arax-run-*')" ] || break
	sleep 0.05
done
[ "$i" -lt 1200 ] || exit 9
sleep 0.1
kill "-$1" $!
wait $!
END
for s in 2 3 15 1 14; do
	is $((128 + s)) "run that signal $s ends before there is a daemon" bash "$tmp/interrupt" $s "$tmp"
	is 0 'leaves nothing behind' sh -c "[ -z \"\$(find $tmp -name 'arax-run-*')\" ]"
done
# What is the program's reaches it, and nothing ends before.
printf '#!/bin/sh\nsleep 2\nexec %s "$@"\n' "$PWD/build/bin/araxd" >"$tmp/slow/araxd"
for s in USR1 USR2; do
	is $((128 + $(kill -l $s))) "run whose program gets a SIG$s from before" bash "$tmp/interrupt" $s "$tmp"
	is 0 'leaves nothing behind' sh -c "[ -z \"\$(find $tmp -name 'arax-run-*')\" ]"
done
n=$((n + 1))
left=$(find "$tmp" -name 'arax-run-*')
if [ -z "$left" ]; then
	echo "ok $n - run leaves nothing behind"
else
	failed=1
	echo "not ok $n - run leaves $left"
fi

cat >"$tmp/inside" <<'END'
set -e
valid() {
	if command -v python3 >/dev/null; then
		python3 -m json.tool >/dev/null
	else
		grep -q '^[]}]$'	# to the end, at least
	fi
}
for c in devices info kernels ps 'tenant show' ${CGROUP2:+'tenant show /'}; do
	build/bin/arax $c >/dev/null
	build/bin/arax $c --json | valid
done
END
# A tenant is named by its cgroup: without a mount there is no name.
CGROUP2=$(awk '$3 == "cgroup2"' /proc/self/mounts)
export CGROUP2
is 0 'tables and JSON' $arax run --private -- bash -o pipefail "$tmp/inside"
# What programs may rely on: the keys of each.
cat >"$tmp/keys" <<'END'
set -e
arax=$1 path=$2
has() { # KEYS COMMAND...
	keys=$1
	shift
	"$@" --json | python3 -c '
import json, sys
o = json.load(sys.stdin)
for row in o if isinstance(o, list) else [o]:
    for key in sys.argv[1].split():
        part = row
        for name in key.split("."):
            if name not in part:
                sys.exit(f"no {key} in {row}")
            part = part[name]
assert o, "empty"' "$keys"
}
has 'index name kind memory_used memory_taken busy_percent power_w' "$arax" devices
has 'link library server' "$arax" info
has 'id name kinds text ranges' "$arax" kernels
has 'context uid user pid command state tenant usage.memory.current' "$arax" ps
has 'id path saved usage.memory.max usage.tasks.max usage.device_time.weight' "$arax" tenant show
[ -z "$path" ] || has 'id path saved usage.memory.max' "$arax" tenant show "$path"
if has 'nonsense' "$arax" info 2>/dev/null; then exit 1; fi
END
if command -v python3 >/dev/null; then
	is 0 'the keys of JSON' $arax run --private -- bash -o pipefail "$tmp/keys" $arax "${CGROUP2:+/}"
else
	n=$((n + 1))
	echo "ok $n - the keys of JSON # SKIP no python3"
fi
is 0 'devices are listed' $arax run --private -- $arax devices
says 'cpu0' 'and are the processor'
for k in opencl cuda hip xrt; do
	says "not configured: add backend \"$k\" { } to araxd.conf, or use --kind $k" \
		"and $k is listed with the reason for none"
done
n=$((n + 1))
if grep -Eq '^0  cpu0 .* host  +-  +-  +[0-9]+%  +-  ' "$tmp/out"; then
	echo "ok $n - with how busy it is, and nothing of what nobody knows"
else
	failed=1
	echo "not ok $n - with how busy it is, and nothing of what nobody knows"
fi
is 0 'as are kinds that were left out' $arax run --private --kind cpu -- $arax devices --json
says '"reason": "left out by --kind: add hip there"' 'with that reason'
says '"reason": null' 'and a device has none'
is 1 'a trace where none can be' $arax run --trace "$tmp/none/t" -- true
is 2 'montecarlo without samples' build/examples/montecarlo --samples 0
is 2 'montecarlo with what is no number' build/examples/montecarlo --samples 9x
is 2 'solve without unknowns' build/examples/solve --order 0
is 2 'solve in more tiles than it takes' build/examples/solve --order 200 --tile 1
says '200 tiles in a row are more than 128' 'and says so'
is 2 'solve in larger tiles than a launch may multiply' build/examples/solve --order 30000 --tile 10305
says 'tiles of 10305 are more than 10304' 'and says so'
for c in 'montecarlo --samples 9' "image-pipeline examples/data/rocket.jpg $tmp/o.png"; do
	# shellcheck disable=SC2086 # words
	is 1 "${c%% *} with a report that can't be written" $arax run --kernels build/lib/arax/kernels \
		--kernels build/examples/kernels -- build/examples/${c%% *} --report "$tmp/no/report" ${c#* }
	says "$tmp/no/report: No such file" 'and says so'
done
is 1 'image-pipeline with a picture that can'"'"'t be written' $arax run -- build/examples/image-pipeline \
	examples/data/rocket.jpg "$tmp/no/o.png"
says "$tmp/no/o.png: No such file" 'and says so'
# 13 tasks, of which some wait for others, on whichever devices.
is 0 'a traced program' $arax run --trace "$tmp/t.jsonl" -- build/examples/image-pipeline \
	examples/data/rocket.jpg "$tmp/o.png"
is 0 'the trace as a table' $arax trace "$tmp/t.jsonl"
says unsharpen 'which names kernels'
cat >"$tmp/check.py" <<'END'
import json, re, sys
form, text = sys.argv[1], sys.stdin.read()
if form == 'tasks':
	lines = [json.loads(l) for l in text.splitlines()]
	assert len(lines) == 13 and all(len(r) == 4 for l in lines for r in l['ranges'])
	# However long araxd had waited for them.
	assert min(l['submit_us'] for l in lines) == 0, lines
	# Of one program and its dataflow queue, and when each was over.
	assert all(l['context'] == 0 and l['queue'] == lines[0]['queue'] for l in lines), lines
	assert all(l['end_us'] > l['submit_us'] and 'in_order' not in l for l in lines), lines
	sys.exit()
if form == 'dot':
	# Who was submitted after another's end did not wait for it: how many edges there are is chance.
	edges = [(int(a), int(b)) for a, b in re.findall(r'broker(\d+)" -> "broker(\d+)', text)]
	assert text.count('[label=') == 13 and edges and all(a < b for a, b in edges), text
	sys.exit()
events = json.loads(text)['traceEvents']
runs = {e['args']['seq']: e for e in events if e['ph'] == 'X' and e['cat'] == 'task'}
assert len(runs) == 13
for a, b in zip(*[[e for e in events if e['ph'] == p] for p in 'sf']):
	assert a['id'] == b['id'] and a['ts'] <= b['ts'], (a, b)
# Nothing overlaps on a lane.
lanes = {}
for e in runs.values():
	lanes.setdefault((e['pid'], e['tid']), []).append((e['ts'], e['ts'] + e['dur']))
for spans in lanes.values():
	spans.sort()
	assert all(x[1] <= y[0] + 1 for x, y in zip(spans, spans[1:])), spans
END
for f in perfetto dot tasks; do
	is 0 "the trace as $f" bash -o pipefail -c "$arax trace --$f $tmp/t.jsonl | python3 $tmp/check.py $f"
done
# Replayed, all that ran runs again: by the clock, or after what it came after.
$arax trace --tasks "$tmp/t.jsonl" >"$tmp/tasks.jsonl"
cat >"$tmp/replay.py" <<'END'
import json, sys
lines = [json.loads(l) for l in open(sys.argv[1])]
json.dump({
	'machine': {'devices': [{'name': 'd', 'lanes': 2}]},
	'kernels': [{'name': k, 'cost': {'d': {'base_us': 1}}} for k in sorted({l['kernel'] for l in lines})],
	'tenants': [{'name': 't'}],
	'workload': [{'type': 'trace', 'file': sys.argv[1], 'loop': sys.argv[2]}],
}, sys.stdout)
END
for loop in open closed; do
	is 0 "the trace replayed in a loop that is $loop" bash -o pipefail -c \
		"python3 $tmp/replay.py $tmp/tasks.jsonl $loop | $arax sim - --json"
	says '"completed": 13,' 'with all of its tasks'
done
head -c 2000 "$tmp/t.jsonl" >"$tmp/cut.jsonl"
is 0 'a trace that is cut off' $arax trace "$tmp/cut.jsonl"
says 'the last line has no end' 'and says so'
# One that was refused, as it was too much, and one that may take for ever.
sed -e '1s/"work":[0-9]*/"work":9223372036854775807/' -e '2s/"start_us"/"target_us":9e15,"start_us"/' "$tmp/t.jsonl" >"$tmp/huge.jsonl"
$arax trace --tasks "$tmp/huge.jsonl" >"$tmp/huge-tasks.jsonl"
is 0 'launches of more than a device can do are replayed' bash -o pipefail -c \
	"python3 $tmp/replay.py $tmp/huge-tasks.jsonl open | $arax sim - --json"
says '"completed": 13,' 'and all others with them'
# Rows that end behind all that can be told.
head -n 1 "$tmp/t.jsonl" | sed 's/"ranges":\[.*\],"then"/"ranges":[[1,0,8,"in",4294967295,9223372036854775807]],"then"/' \
	>"$tmp/far.jsonl"
is 1 'a range that no buffer has' $arax trace --tasks "$tmp/far.jsonl"
says 'a task without its parts' 'and is told of'
XDG_STATE_HOME=$tmp/no/such is 0 'run where nothing was learnt yet' $arax run --private -- \
	build/examples/image-pipeline --repeat 5 examples/data/rocket.jpg "$tmp/o.png"
is 0 'what was learnt is kept in a folder that is new' \
	$arax models --file "$tmp/no/such/arax/models.json"
says unsharp 'and shown'
echo 'cpu { memory = "64M" }' >"$tmp/memory.conf"
is 0 'the trace of devices with memory' $arax run --config "$tmp/memory.conf" --trace "$tmp/t.jsonl" -- \
	build/examples/image-pipeline examples/data/rocket.jpg "$tmp/o.png"
is 0 'copies are in it' bash -c "$arax trace --perfetto $tmp/t.jsonl | grep -q '\"copy out\"'"
if [ "$(id -u)" = 0 ] && unshare -m umount -l /sys/fs/cgroup 2>/dev/null; then
	# Its tenants' numbers are larger than JSON's integers.
	is 0 'the trace of tenants that are no cgroups' unshare -m bash -ec \
		"umount -l /sys/fs/cgroup
		$arax run --trace $tmp/t.jsonl -- build/examples/image-pipeline examples/data/rocket.jpg $tmp/o.png
		$arax trace --tasks $tmp/t.jsonl"
fi
is 0 'the link is told' $arax run --private -- $arax info
says 'broker' 'and is the broker'
says 'own memory as buffers         no' 'and what it does not guarantee'
is 1 'kill of no context' $arax run --private -- $arax kill 4000000000
says 'killing context 4000000000' 'and says which'
is 1 'kill --json of none of two' $arax run --private -- $arax kill --json 4000000000 4000000001
says '"context": 4000000001' 'tells of each'
says '"result": -2' 'by an errno'
is 1 'a cgroup that is not there' $arax run --private -- $arax tenant show /arax-none
if grep -q cgroup2 /proc/self/mounts; then
	is 0 'a limit is set and shown' $arax run --private -- bash -ec \
		"$arax tenant set / memory.max=3G tasks.max=77 device_time.max='5000 10000'
		$arax tenant show; $arax tenant show /; $arax tenant unset / tasks.max
		$arax tenant show / --json"
	says '3 GiB' 'memory.max in the table'
	says 'contexts.events' 'and in the list of one what each limit has refused'
	says ' 5.0 ms in 10.0 ms ' 'device_time.max beside it'
	says 'device_time.max        5.0 ms in 10.0 ms' 'and in the list of one'
	says '"max": 3221225472' 'memory.max in the JSON'
	says '"max_ns": 5000000' 'device_time.max in nanoseconds'
	# A program is told which limit it was, and what it can do itself.
	is 1 'a buffer beyond memory.max' $arax run --private -- bash -ec \
		"$arax tenant set memory.max=1M
		build/examples/image-pipeline examples/data/rocket.jpg $tmp/o.png"
	says "memory.max of the program's cgroup is 1048576, of which" 'and which limit it was'
	says 'destroy buffers' 'and what to do'
	is 1 'tasks beyond tasks.max' $arax run --kernels build/examples/kernels -- bash -ec \
		"$arax tenant set tasks.max=1; build/examples/montecarlo"
	says "tasks.max of the program's cgroup is 1, of which" 'and which limit it was'
	is 1 'a context beyond contexts.max' $arax run --kernels build/examples/kernels -- bash -ec \
		"$arax tenant set contexts.max=0; build/examples/montecarlo"
	says "contexts.max of the program's cgroup is 0" 'and which limit it was'
	is 0 'tenant set --json' $arax run --private -- \
		$arax tenant set --json / memory.max=3G tasks.max=77
	says '"max": 3221225472' 'tells of the new limit'
	says '"max": 77' 'of each'
	is 0 'tenant unset --json' $arax run --private -- bash -ec \
		"$arax tenant set / tasks.max=77; $arax tenant unset --json / tasks.max"
	says '"max": null' 'tells that there is none any more'
	n=$((n + 1))
	if grep -q 77 "$tmp/out"; then
		failed=1
		echo "not ok $n - and nothing else"
	else
		echo "ok $n - and nothing else"
	fi
	is 0 'tenant set --save --json of a cgroup that is not there' $arax run --private -- \
		$arax tenant set --save --json --tenants "$tmp/j" /arax-none tasks.max=5
	says '"tasks.max=5"' 'tells what is saved'
	says '"usage": null' 'and that nothing is used'
	is 0 'tenant show of it' $arax run --private -- \
		$arax tenant show --tenants "$tmp/j" --json /arax-none/
	says '"tasks.max=5"' 'tells so, too'
	is 1 'tenant show of another one' $arax run --private -- \
		$arax tenant show --tenants "$tmp/j" /arax-nor
	is 1 'tenant set --json of a cgroup that is not there' $arax run --private -- \
		$arax tenant set --json /arax-none tasks.max=5
	is 1 'a path that no cgroup can have' $arax run --private -- \
		$arax tenant set --save --tenants "$tmp/t" /a/../b tasks.max=1
	says 'no ..' 'and why'
	touch "$tmp/file"
	is 1 'saving to what is no folder' $arax run --private -- \
		$arax tenant set --save --tenants "$tmp/file" / tasks.max=1
	says "$tmp/file" 'and which'
	# A picture's 1.1 MB: the widest task holds four of them on a device at once.
	is 0 'device_memory.max holds, and is no more than waited for' \
		$arax run --config "$tmp/memory.conf" -- bash -ec "
			$arax tenant set device_memory.max=4000K
			if build/examples/image-pipeline examples/data/rocket.jpg $tmp/o.png; then exit 9; fi
			$arax tenant set device_memory.max=4400K
			build/examples/image-pipeline --repeat 5 examples/data/rocket.jpg $tmp/o.png
			$arax tenant show --json | python3 -c '
import json, sys
t = max((t[\"usage\"][\"device_memory\"] for t in json.load(sys.stdin)), key=lambda m: m[\"peak\"])
assert t[\"current\"] == 0 and 4000 << 10 < t[\"peak\"] <= 4400 << 10, t'"
	is 0 'a limit is saved and shown' $arax run --private -- bash -ec \
		"$arax tenant set --save --tenants $tmp/t / memory.max=3G
		$arax tenant show / --json --tenants $tmp/t"
	says '"memory.max=3G"' 'as saved'
	echo 'tenant / { tasks.max = 50 }' >"$tmp/t/10.conf"
	is 0 'what is saved is taken back' $arax run --private -- bash -ec \
		"$arax tenant set --save --tenants $tmp/t / tasks.max=70
		$arax tenant unset --save --tenants $tmp/t / tasks.max
		$arax tenant show / --json --tenants $tmp/t"
	says "is 50 by $tmp/t/10.conf:1: change it there" 'which is told'
	says '"tasks.max=50"' 'and what an earlier file says holds again'
	says '"max": 50' 'for the tenant, too'
	echo 'tenant / { tasks.max = 60 device_time.weight = 7 }' >"$tmp/t/99.conf"
	echo 'tenant / { tasks.max = 70 contexts.max = 9 }' >"$tmp/t/90-saved.conf"
	is 1 'what only another file says is not' $arax run --private -- \
		$arax tenant unset --save --tenants "$tmp/t" / contexts.max device_time.weight
	says '99.conf:1: change it there' 'and that file is named'
	is 0 'what a later file overrules is taken back as well' $arax run --private -- bash -ec \
		"$arax tenant unset --save --tenants $tmp/t / tasks.max
		if grep tasks.max $tmp/t/90-saved.conf; then exit 9; fi
		# Nor is what stood beside the one that was not ours.
		grep -q contexts.max $tmp/t/90-saved.conf
		$arax tenant show / --json --tenants $tmp/t"
	says "is 60 by $tmp/t/99.conf:1: change it there" 'and that file is named'
	says '"max": 60' 'as what it says holds'
	rm "$tmp/t/99.conf"
	is 1 'what an earlier file says is not' $arax run --private -- \
		$arax tenant unset --save --tenants "$tmp/t" / tasks.max
	says '10.conf:1: change it there' 'and that file is named'
	echo 'tenant / { tasks.max = -1 }' >"$tmp/t/10.conf"
	is 0 'a wrong file stops no show' $arax run --private -- $arax tenant show --tenants "$tmp/t"
	says '10.conf:1: tasks.max = "-1"' 'and is told'
	is 1 'but a save' $arax run --private -- \
		$arax tenant unset --save --tenants "$tmp/t" / memory.max
	says 'nothing is changed' 'and nothing is done'
	n=$((n + 1))
	if [ "$(id -u)" != 0 ]; then
		echo "ok $n - only its owner saves # SKIP not root"
	elif ! setpriv --reuid=65534 --regid=65534 --clear-groups test -x $arax; then
		echo "ok $n - only its owner saves # SKIP others can't run $arax"
	else
		n=$((n - 1))
		chmod 755 "$tmp"
		is 1 'only its owner saves' setpriv --reuid=65534 --regid=65534 --clear-groups \
			$arax tenant set --save --tenants "$tmp/t" / tasks.max=1
		says 'only root can save limits' 'and says so'
	fi
else
	n=$((n + 1))
	echo "ok $n - limits # SKIP no cgroup2 file system is mounted"
fi

# shellcheck disable=SC2016 # for the shell inside
unmounted='for m in $(awk "\$3 == \"cgroup2\" { print \$2 }" /proc/self/mounts); do
		umount -l "$m" || exit 9; done; exec "$@"'
if unshare -m sh -c "$unmounted" sh true 2>/dev/null; then
	is 1 'without cgroup2 nothing is set' \
		unshare -m sh -c "$unmounted" sh $arax tenant set / tasks.max=1
	says 'cgroup2' 'and says what is missing'
else
	n=$((n + 1))
	echo "ok $n - without cgroup2 # SKIP nothing can be unmounted here"
fi

other=(setpriv --reuid=65534 --regid=65534 --clear-groups)

# A device that is there and closed to us is what is told, not that there is no socket.
# shellcheck disable=SC2016 # for the shell inside
closed='mount -t tmpfs -o mode=755 none /dev && : >/dev/arax && chown 0:77 /dev/arax && chmod "$1" /dev/arax && shift && exec "$@"'
if "${other[@]}" test -x $arax && unshare -m sh -c "$closed" sh 660 true 2>/dev/null; then
	is 1 'a device of a group' unshare -m sh -c "$closed" sh 660 env -u XDG_RUNTIME_DIR "${other[@]}" $arax info
	says '/dev/arax, whose mode is 0660 and whose group is gid 77' 'and says whose'
	says 'Permission denied' 'and what is wrong'
	is 1 'a device of nobody else' unshare -m sh -c "$closed" sh 600 env -u XDG_RUNTIME_DIR "${other[@]}" $arax info
	says '/dev/arax, whose mode is 0600 and whose owner is uid 0' 'and says whose'
else
	echo "ok $((++n)) - a device that may not be opened # SKIP nothing can be mounted, or others can't run $arax"
fi

# What is for administrators, at a daemon that serves all.
if [ "$(id -u)" != 0 ]; then
	echo "ok $((++n)) - administrators' commands for others # SKIP not root"
elif ! "${other[@]}" test -x $arax; then
	echo "ok $((++n)) - administrators' commands for others # SKIP others can't run $arax"
else
	chmod 755 "$tmp"
	echo "sched { models = \"$tmp/models.json\" }" >"$tmp/empty.conf"
	mkfifo "$tmp/ready"
	exec 8<>"$tmp/ready"
	build/bin/araxd --no-kernel --config "$tmp/empty.conf" --tenants "$tmp/all.d" \
		--socket "$tmp/all.sock" --ready-fd 8 2>"$tmp/log" &
	daemon=$!
	read -r -t 60 -n 1 -u 8 _
	export ARAX_LINK=broker:$tmp/all.sock
	for c in devices info kernels 'run true'; do
		# shellcheck disable=SC2086 # words
		is 0 "$c is for all" "${other[@]}" $arax $c
	done
	# A user may have any number of 32 bits.
	mkfifo "$tmp/hold"
	exec 9<>"$tmp/hold"
	setpriv --reuid=3000000000 --regid=65534 --clear-groups build/unit/libarax-second hold <&9 &
	holder=$!
	for _ in {1..600}; do
		$arax ps | grep -q 3000000000 && break
		sleep 0.05
	done
	is 0 'ps of a user with a large number' $arax ps --json
	says '"uid": 3000000000' 'and that is it'
	kill $holder
	for c in ps 'kill 1' 'tenant show' "tenant show /" "tenant set / tasks.max=1"; do
		[ -n "$CGROUP2" ] || [ "$c" = "${c#tenant * /}" ] || continue
		# shellcheck disable=SC2086 # words
		is 1 "$c is not" "${other[@]}" $arax $c
		says 'only for root' 'and says so'
		# shellcheck disable=SC2086 # words
		[ "$c" = 'kill 1' ] || is 0 "$c is for root" $arax $c
	done
	kill $daemon
	wait $daemon
	status=$?
	n=$((n + 1))
	if [ $status = 0 ]; then
		echo "ok $n - araxd serves until it is told to end"
	else
		failed=1
		echo "not ok $n - araxd serves until it is told to end: exit status $status"
		sed 's/^/# /' "$tmp/log"
	fi
fi
echo "1..$n"
exit $failed
