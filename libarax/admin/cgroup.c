// SPDX-License-Identifier: MIT
#include "libarax/admin/cgroup.h"

#include <mntent.h>
#include <stdio.h>
#include <string.h>

bool cgroup_mount(char *path, size_t size)
{
	FILE *f = setmntent("/proc/self/mounts", "re");
	char line[16384];
	struct mntent m;
	bool found = false;

	while (f && !found && getmntent_r(f, &m, line, sizeof(line))) {
		found = !strcmp(m.mnt_type, "cgroup2") && strlen(m.mnt_dir) < size;
		if (found)
			strcpy(path, m.mnt_dir);
	}
	if (f)
		endmntent(f);
	return found;
}
