#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Saved limits of tenants, on either link: `arax tenant set --save`, araxd's start,
# cgroups that come later, files that are wrong.  TAP on standard output.
# usage: saved.sh ARAX ARAXD...	(araxd's command, to which options are added)

set -u
arax=$1
shift
work=$(mktemp -d /tmp/arax-saved.XXXXXX)
chmod 755 "$work"
folder=$work/tenants.d
own=$folder/90-saved.conf
daemon=
n=0
failed=0
mount=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
group=arax-saved-$$
top=$mount/$group

cleanup() {
	[ -z "$daemon" ] || kill "$daemon" 2>/dev/null
	find "$top" -depth -type d -exec rmdir {} + 2>/dev/null
	rm -rf "$work"
}
trap cleanup EXIT

skip() {
	echo "ok 1 - saved limits # SKIP $1"
	echo '1..1'
	exit 0
}
[ -n "$mount" ] || skip 'no cgroup2 file system is mounted'
mkdir "$top" 2>/dev/null || skip 'no cgroup can be made here'

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

start() { # OPTIONS...
	rm -f "$work/ready"
	mkfifo "$work/ready"
	# A reader is there before araxd may write and close it.
	exec 6<>"$work/ready"
	exec 5<"$work/ready"
	"$@" --tenants "$folder" --ready-fd 9 9>&6 6>&- 5<&- 2>"$work/log" &
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

tenant() { "$arax" tenant "$@" --tenants "$folder" >"$work/out" 2>&1; }

# What holds now: KEY of the cgroup NAME below ours.
now() { "$arax" tenant show "/$group/$1" | sed -n "s/^$2  *//p"; }

# An event's way is not instant, and nothing tells when nothing comes: up to a minute.
becomes() { # NAME KEY VALUE
	tries=600
	while [ "$(now "$1" "$2")" != "$3" ] && [ $tries -gt 0 ]; do
		sleep 0.1
		tries=$((tries - 1))
	done
	[ "$(now "$1" "$2")" = "$3" ]
}

# What the daemon watches: folders of cgroups, and that of the files.
watches() { cat "/proc/$daemon/fdinfo/"* 2>/dev/null | grep -c '^inotify'; }

logged() {
	tries=600
	while ! grep -q "$1" "$work/log" && [ $tries -gt 0 ]; do
		sleep 0.1
		tries=$((tries - 1))
	done
	grep -q "$1" "$work/log"
}

mkdir "$top/now"
start "$@"
tenant set --save "/$group/now" memory.max=3G tasks.max=77
ok $? 'a limit is set and saved'
[ "$(now now tasks.max)" = 77 ]
ok $? 'it holds at once'
grep -q "memory.max = '3G'" "$own"
ok $? 'it is in the file'
[ "$(stat -c %a "$own")" = 644 ]
ok $? 'which all may read and one may write'
tenant show "/$group/now" && grep -q '^saved .*tasks.max=77' "$work/out"
ok $? 'show says that it is saved'
tenant set "/$group/now" contexts.max=5 && ! grep -q contexts.max "$own"
ok $? 'without --save nothing is saved'
tenant show "/$group/now" && ! grep -q '^saved .*contexts.max' "$work/out"
ok $? 'and show does not say so'

tenant set --save "/$group/later" tasks.max=5
ok $? 'the cgroup need not exist yet'
grep -q "no cgroup /$group/later" "$work/out"
ok $? 'which is told'
! tenant set "/$group/later" tasks.max=5 && grep -q 'No such file' "$work/out"
ok $? 'without --save it must'
tenant show && grep -q "/$group/later .*tasks.max=5" "$work/out"
ok $? 'show lists what is saved for a cgroup that is not there'
mkdir "$top/later"
becomes later tasks.max 5
ok $? 'a cgroup that appears has its limit'
rmdir "$top/later"
mkdir "$top/later"
becomes later tasks.max 5
ok $? 'so has a new one of the same name'

i=0
while [ $i -lt 20 ] && rmdir "$top/later" && mkdir "$top/later" && becomes later tasks.max 5; do
	i=$((i + 1))
done
[ $i = 20 ]
ok $? 'and each after it'
i=0
began=$(date +%s)
before=$(grep -c "saved limits* set .*/$group/later" "$work/log")
while [ $i -lt 500 ] && rmdir "$top/later" && mkdir "$top/later"; do
	i=$((i + 1))
done
[ $i = 500 ] && becomes later tasks.max 5
ok $? 'also if they come as fast as they can be made'
lines=$(($(grep -c "saved limits* set .*/$group/later" "$work/log") - before))
[ $lines -le $(($(date +%s) - began + 2)) ]
ok $? 'of which the log has a line a second'

tenant set --save "/$group/in/deep" tasks.max=5
mkdir "$top/in" "$top/in/deep"
becomes in/deep tasks.max 5
ok $? 'a cgroup that appears with the one above it has its limit'
before=$(watches)
i=0
while [ $i -lt 20 ] && rmdir "$top/in/deep" "$top/in" && mkdir "$top/in" "$top/in/deep" &&
	becomes in/deep tasks.max 5; do
	i=$((i + 1))
done
[ $i = 20 ]
ok $? 'so has each after it'
[ "$before" -gt 0 ] && [ "$(watches)" = "$before" ]
ok $? 'and what is watched does not become more by that'
tenant unset --save "/$group/in/deep" tasks.max
rmdir "$top/in/deep" "$top/in"

tenant show && [ "$(grep -c "/$group/later " "$work/out")" = 1 ]
ok $? 'show lists the one that is there, and none before it'
rmdir "$top/later"
"$arax" tenant show --json --tenants "$work/none" >"$work/out" && ! grep -q "/$group/later" "$work/out"
ok $? 'without its cgroup there is no tenant'
mkdir "$top/later"
becomes later tasks.max 5
ok $? 'until it is made anew'

deep=/in
i=2
while [ $i -lt 31 ]; do
	deep=$deep/$i
	i=$((i + 1))
done
# With the root and ours it is the 32nd.
mkdir -p "$top$deep/below"
tenant set "/$group$deep" tasks.max=9 && [ "$(now "$deep" tasks.max)" = 9 ]
ok $? 'a cgroup can be given limits down to the 32nd level'
! tenant set --save "/$group$deep/below" tasks.max=1 &&
	grep -q 'nests deeper than 32 levels' "$work/out" && ! grep -q /below "$own"
ok $? 'and no deeper'
[ "$(now "$deep" tasks.max)" = 9 ]
ok $? 'nor is that set on the one above it'
find "$top/in" -depth -type d -exec rmdir {} +

cat >"$folder/10-hand.conf" <<END
# by hand
tenant "/$group/now" { device_time.weight = 300 }
END
becomes now device_time.weight 300
ok $? 'a file that appears holds at once'
tenant set --save "/$group/now" device_time.weight=250 &&
	tenant unset --save "/$group/now" device_time.weight device_time.weight &&
	! grep -q "weight *= *250" "$own"
ok $? 'ours beside it is, and may be named twice'
! tenant unset --save "/$group/now" device_time.weight &&
	grep -q "10-hand.conf:2: change it there" "$work/out"
ok $? 'what is in another file is not ours to unset'
echo "tenant '/$group/now' { tasks.max = 9 }" >"$folder/99-hand.conf"
becomes now tasks.max 9
ok $? 'a later file wins'
! tenant set --save "/$group/now" tasks.max=8 && grep -q '99-hand.conf:1' "$work/out" &&
	[ "$(now now tasks.max)" = 9 ]
ok $? 'so ours would not hold: refused'
tenant set --save "/$group/now" contexts.max=7 && tenant unset --save "/$group/now" contexts.max &&
	grep -q "tasks.max = '77'" "$own"
ok $? 'nor is it lost when something else is saved'
rm "$folder/99-hand.conf"
becomes now tasks.max 77
ok $? 'without it the earlier one holds again'
rm "$folder/10-hand.conf"
becomes now device_time.weight 100
ok $? 'what stands nowhere any more is taken back'

cp -a "$folder" "$work/new"
echo "tenant '/$group/now' { contexts.max = 9 }" >"$work/new/30-more.conf"
mv "$folder" "$work/old"
sleep 1
[ "$(now now tasks.max)" = 77 ] && logged 'the folder of saved limits is gone'
ok $? 'limits hold while there is no folder of files for a while'
mv "$work/new" "$folder"
becomes now contexts.max 9
ok $? 'another folder in the place of that of the files holds'
echo "tenant '/$group/now' { contexts.max = 10 }" >"$folder/30-more.conf"
becomes now contexts.max 10
ok $? 'and what is written into it'
rm "$folder/30-more.conf"
becomes now contexts.max max
ok $? 'or taken out of it'

tenant set "/$group/now" tasks.max=11 && tenant set --save "/$group/later" tasks.max=6
becomes later tasks.max 6
ok $? 'a saved limit can be changed'
[ "$(now now tasks.max)" = 11 ]
ok $? 'and what was changed by hand meanwhile stays'
kill -HUP "$daemon"
becomes now tasks.max 77
ok $? 'until SIGHUP'

before=$(cat "$own")
echo "tenant '/$group/now' { tasks.max = many }" >"$folder/20-bad.conf"
logged '20-bad.conf:1: tasks.max = ..many.. of tenant ../arax-saved'
ok $? 'a bad value is logged with file, line and key'
[ "$(now now tasks.max)" = 77 ]
ok $? 'and changes nothing'
! tenant set --save "/$group/now" tasks.max=1 && grep -q '20-bad.conf:1' "$work/out" &&
	[ "$(cat "$own")" = "$before" ] && [ "$(now now tasks.max)" = 77 ]
ok $? 'nothing is saved or set beside it'
stop

start "$@"
grep -q '20-bad.conf:1' "$work/log" && [ "$(now now memory.max)" = '3 GiB' ]
ok $? 'a start with a bad value: the others hold'
[ "$(now later tasks.max)" = 6 ]
ok $? 'of all tenants'
rm "$folder/20-bad.conf"
chmod go+w "$folder"
kill -HUP "$daemon"
logged 'tenants.d: mode .*chmod go-w'
ok $? 'a folder that others can write is not read'
! tenant set --save "/$group/now" tasks.max=1 && grep -q 'chmod go-w' "$work/out"
ok $? 'and not written'
chmod go-w "$folder"

# Over the socket nobody is served before his limits hold, however quick he is.
case $ARAX_LINK in
broker:*)
	tenant set --save "/$group/first" contexts.max=0
	first=build/selftests/system/first-context
	"$first" "$top/first" >"$work/out" 2>&1
	ok $? 'the first program of a new cgroup is limited, too'
	tenant unset --save "/$group/first" contexts.max
	mkdir "$top/deep" && tenant set "/$group/deep" contexts.max=0
	# A path that the kernel can't tell must not count as the root's.
	python3 - "$top/deep" "$PWD/$first" >"$work/out" 2>&1 <<'END'
import os, subprocess, sys
name = 'n' * 250
os.chdir(sys.argv[1])
for _ in range(18):
    os.mkdir(name)
    os.chdir(name)
with open('cgroup.procs', 'w') as f:
    f.write('0')
status = subprocess.call([sys.argv[2]])
with open(sys.argv[1] + '/../../cgroup.procs', 'w') as f:
    f.write('0')
for _ in range(18):
    os.chdir('..')
    os.rmdir(name)
sys.exit(status)
END
	ok $? 'a cgroup nested beyond PATH_MAX does not lead out of the limits'
	rmdir "$top/deep"
	# All may read the folder, and who can open it can lock it: nobody waits for him.
	python3 - "$folder" >"$work/locked" <<'END' &
import fcntl, os, sys, time
if os.geteuid() == 0:
    os.setgroups([])
    os.setresuid(65534, 65534, 65534)
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)
print('locked', flush=True)
time.sleep(60)
END
	locker=$!
	tries=600
	while [ ! -s "$work/locked" ] && [ $tries -gt 0 ]; do
		sleep 0.1
		tries=$((tries - 1))
	done
	[ -s "$work/locked" ] && timeout 20 "$arax" tenant set --save "/$group/now" contexts.max=5 \
		--tenants "$folder" >"$work/out" 2>&1
	ok $? 'who may only read the folder keeps nobody from changing it'
	kill $locker
	tenant unset --save "/$group/now" contexts.max
	;;
esac

tenant unset --save "/$group/now" memory.max && ! grep -q memory.max "$own" &&
	[ "$(now now memory.max)" = max ]
ok $? 'unset --save takes back and forgets'
tenant unset --save "/$group/now" tasks.max && tenant unset --save "/$group/later" tasks.max &&
	! grep -q '^tenant' "$own"
ok $? 'the last of a tenant takes its section with it'
stop
! tenant set --save "/$group/now" memory.max=1x && ! grep -q memory "$own"
ok $? 'what can not be is not saved'

echo "1..$n"
exit $failed
