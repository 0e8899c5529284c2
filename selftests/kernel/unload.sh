#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Unloads the module, in the guest.  A test's last files are closed a little
# after it, so that takes up to a minute.
# usage: unload.sh

tries=600
while [ $tries -gt 0 ]; do
	rmmod arax 2>/dev/null && exit 0
	sleep 0.1
	tries=$((tries - 1))
done
rmmod arax
