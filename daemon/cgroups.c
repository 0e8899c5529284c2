// SPDX-License-Identifier: MIT
#include "daemon/cgroups.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "daemon/config.h"
#include "daemon/link/identity.h"
#include "daemon/log.h"
#include "daemon/worker/cgroup.h"

/* What systemd delegates is below a cgroup that has no processes itself. */
static int enter_delegated(char *dir, size_t len)
{
	struct identity *id = identity_create();
	char mark = 0, procs[PATH_MAX];
	FILE *f = NULL;
	int err;

	if (!id)
		return -ENOMEM;
	err = identity_own_cgroup(id, dir, len);
	identity_destroy(id);
	if (err)
		return err;
	if (getxattr(dir, "user.delegate", &mark, 1) != 1 &&
	    getxattr(dir, "trusted.delegate", &mark, 1) != 1)
		return -ENOENT;
	if (mark != '1' || snprintf(procs, sizeof(procs), "%s/araxd", dir) >= (int)sizeof(procs))
		return -ENOENT;
	if (mkdir(procs, 0755) && errno != EEXIST)
		return -errno;
	if (strlen(procs) + sizeof("/cgroup.procs") > sizeof(procs))
		return -ENAMETOOLONG;
	strcat(procs, "/cgroup.procs");
	f = fopen(procs, "we");
	if (!f || fputs("0", f) < 0)
		err = -errno;
	if (f && fclose(f))
		err = -errno;
	return err;
}

int cgroups_open(const struct config *config)
{
	const char *folder = config->worker.cgroup;
	char dir[PATH_MAX];
	int err;

	if (!strcmp(folder, "none"))
		return 0;
	if (strcmp(folder, "auto"))
		return worker_cgroups_open(folder, config->worker.threads);
	err = enter_delegated(dir, sizeof(dir));
	if (!err)
		err = worker_cgroups_open(dir, config->worker.threads);
	if (err)
		log_info("workers have no cgroups of their own", log_errno(err),
			 log_str("remedy", "Delegate=pids in araxd's unit, or worker.cgroup"));
	return 0;
}
