// SPDX-License-Identifier: MIT
/*
 * Makes a cgroup, enters it and opens a context with nothing in between, again and
 * again.  The cgroup has a saved limit of no contexts: each one must be refused.
 * Without a cgroup: one context in the one where it is, refused for whatever reason.
 * usage: first-context [CGROUP]
 */
#include <arax/arax.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROUNDS	200

static void enter(const char *cgroup)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, "0\n", 2) != 2)
		err(2, "%s", path);
	close(fd);
}

int main(int argc, char **argv)
{
	struct arax *ax;
	char *parent;
	int i, ret;

	if (argc == 1) {
		if (!arax_open(&ax, NULL))
			errx(1, "a context without limits");
		return 0;
	}
	if (argc != 2)
		errx(2, "usage: first-context [CGROUP]");
	parent = dirname(strdup(argv[1]));
	for (i = 0; i < ROUNDS; i++) {
		if (mkdir(argv[1], 0755))
			err(2, "%s", argv[1]);
		enter(argv[1]);
		ret = arax_open(&ax, NULL);
		enter(parent);
		rmdir(argv[1]);
		if (!ret)
			errx(1, "round %d: a context without limits", i);
		if (ret != -EDQUOT)
			errx(1, "round %d: %s", i, arax_error_text());
	}
	return 0;
}
