// SPDX-License-Identifier: MIT
#include "daemon/worker/mounts.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Whether no mount of the list is shared, and @root is one of them. */
static bool nothing_is_shared_in(const char *list, uint64_t root)
{
	FILE *f = fopen(list, "re");
	size_t size = 0;
	char *line = NULL;
	bool shared = false, found = false;

	if (!f)
		return false;
	/* Of the optional fields, which a lone dash ends. */
	while (!shared && getline(&line, &size, f) > 0) {
		const char *field = strstr(line, " shared:"), *dash = strstr(line, " - ");

		found |= strtoull(line, NULL, 10) == root;
		shared = field && (!dash || field < dash);
	}
	free(line);
	fclose(f);
	return found && !shared;
}

bool mounts_nothing_shared(void)
{
	struct stat ours, first;
	struct statx root;

	if (statx(AT_FDCWD, "/", 0, STATX_MNT_ID, &root) || !(root.stx_mask & STATX_MNT_ID))
		return false;
	if (nothing_is_shared_in("/proc/self/mountinfo", root.stx_mnt_id))
		return true;
	return !stat("/proc/self/ns/mnt", &ours) && !stat("/proc/1/ns/mnt", &first) &&
	       ours.st_dev == first.st_dev && ours.st_ino == first.st_ino &&
	       nothing_is_shared_in("/proc/1/mountinfo", root.stx_mnt_id);
}
