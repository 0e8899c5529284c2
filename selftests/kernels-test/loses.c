// SPDX-License-Identifier: MIT
/*
 * A worker whose OpenCL device is lost with its second launch, on a driver that nobody has; and one
 * whose compiler ends as the kernel is called.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "daemon/worker/engine.h"

static int launches;

static int open_nothing(void)
{
	return 0;
}

static int open_device(uint32_t index, const char *name, const char **why)
{
	(void)index;
	(void)name;
	(void)why;
	return 0;
}

static void load(const struct worker_msg *msg, int fd, bool *keep, struct loaded *k)
{
	(void)msg;
	(void)fd;
	(void)keep;
	(void)k;
}

static void build(const struct worker_msg *msg, int fd, bool *keep, struct loaded *k)
{
	(void)fd;
	(void)keep;
	(void)k;
	if (!strcmp(msg->symbol, "crash"))
		__builtin_trap();
	if (!strcmp(msg->symbol, "exit"))
		_exit(3);
	while (!strcmp(msg->symbol, "hang"))
		sleep(1);
}

static int run(const struct loaded *k, const struct arax_launch *l, const struct engine_how *how)
{
	(void)k;
	(void)l;
	(void)how;
	return launches++ ? -ENODEV : 0;
}

/* More than anybody is told, and not fit for a terminal. */
static const char *say_much(void)
{
	static char words[4000] = "nobody's driver: lost\033[2J\n \x9b";

	memset(words + strlen(words), '!', sizeof(words) - 1 - strlen(words));
	return words;
}

const struct engine engine_opencl = {
	.open = open_nothing, .device = open_device, .load = load, .run = run, .why = say_much,
};

const struct engine engine_opencl_build = {
	.open = open_nothing, .device = open_device, .load = build, .run = run,
};
